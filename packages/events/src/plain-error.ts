/** Errors as messages between two threads. */
import { InstarError, type ErrorCode } from './errors.ts'

export type PlainError = { code: ErrorCode; message: string; details: Record<string, unknown> }

const CARRIED = ['string', 'number', 'boolean']

/** Details that a message cannot carry (functions, sockets) are left behind. */
export function plainError(error: unknown): PlainError {
  if (!(error instanceof InstarError)) {
    return { code: 'internal', message: error instanceof Error ? error.message : String(error), details: {} }
  }
  const details = Object.fromEntries(
    Object.entries(error.details).filter(([, value]) => CARRIED.includes(typeof value)),
  )
  return { code: error.code, message: error.message, details }
}

export function fromPlain(error: PlainError): InstarError {
  return new InstarError(error.code, error.message, error.details)
}
