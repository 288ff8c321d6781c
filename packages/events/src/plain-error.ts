/** Errors as plain data, for messages between threads. */
import { InstarError, type ErrorCode } from './errors.ts'

export type PlainError = { code: ErrorCode; message: string; details: Record<string, unknown> }

const PLAIN_TYPES = ['string', 'number', 'boolean']

/** Details that are not strings, numbers or booleans are dropped. Other errors than InstarError become `internal`. */
export function plainError(error: unknown): PlainError {
  if (!(error instanceof InstarError)) {
    return { code: 'internal', message: error instanceof Error ? error.message : String(error), details: {} }
  }
  const details = Object.fromEntries(
    Object.entries(error.details).filter(([, value]) => PLAIN_TYPES.includes(typeof value)),
  )
  return { code: error.code, message: error.message, details }
}

export function fromPlain(error: PlainError): InstarError {
  return new InstarError(error.code, error.message, error.details)
}
