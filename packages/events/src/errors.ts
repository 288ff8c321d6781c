/**
 * The closed table of errors: a code is one fixed meaning, HTTP status, whether trying again can help,
 * and what to do. `docs/errors.md` is held equal to it by a test. Nothing else in Instar throws to a user.
 */
export type ErrorEntry = { status: number; retryable: boolean; meaning: string; todo: string }

export const ERRORS = {
  bad_request: { status: 400, retryable: false, meaning: 'The request is malformed or a field has a wrong type.', todo: 'Correct the field that the message names.' },
  bad_checkpoint: { status: 422, retryable: false, meaning: 'A model or adapter file is damaged, or of a kind that Instar cannot load.', todo: 'Fetch the file again or give another one; the message names the file and the tensor or field.' },
  bad_record: { status: 500, retryable: false, meaning: 'Bytes on the log (or an event about to be appended) break the schema of their record type.', todo: 'Run `instar doctor`; compare the log with its copy. The record is left where it is.' },
  unknown_record: { status: 500, retryable: false, meaning: 'The log holds a record type that this build does not know.', todo: 'Start the build that wrote it, or a newer one.' },
  log_gap: { status: 500, retryable: false, meaning: 'A record of a chain names a predecessor that this reader has never read.', todo: 'The log, or the snapshot that was started from, misses a record: delete the snapshot; if it stays, restore the log from its copy.' },
  log_full: { status: 503, retryable: true, meaning: 'The bounded queue in front of the log is full.', todo: 'Try again after the time in Retry-After.' },
  log_unavailable: { status: 503, retryable: true, meaning: 'The log could not be written to; it is not known whether the records are on it.', todo: 'Try again: ids make a second try harmless.' },
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
