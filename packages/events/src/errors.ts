/**
 * The closed table of errors: a code is one fixed meaning, HTTP status, whether trying again can help,
 * and what to do. `docs/errors.md` is held equal to it by a test. Nothing else in Instar throws to a user.
 */
export type ErrorEntry = { status: number; retryable: boolean; meaning: string; todo: string }

export const ERRORS = {
  bad_request: { status: 400, retryable: false, meaning: 'The request is malformed or a field has a wrong type.', todo: 'Correct the field that the message names.' },
  bad_checkpoint: { status: 422, retryable: false, meaning: 'A model or adapter file is damaged, or of a kind that Instar cannot load.', todo: 'Fetch the file again or give another one; the message names the file and the tensor or field.' },
  internal: { status: 500, retryable: true, meaning: 'A defect of ours.', todo: 'Report it with the request id; nothing that was answered is lost.' },
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof ERRORS

export class InstarError extends Error {
  readonly code: ErrorCode
  /** Plain values for programs: the field, the limit, the sha that differs. */
  readonly details: Readonly<Record<string, unknown>>
  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options)
    this.name = 'InstarError'
    this.code = code
    this.details = details
  }
  get status(): number { return ERRORS[this.code].status }
  get retryable(): boolean { return ERRORS[this.code].retryable }
}
