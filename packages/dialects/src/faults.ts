/** The messages of errors that clients receive. */
import { ERRORS, InstarError } from '@instar/events/errors'

/** An internal error does not reveal its message. */
export const clientMessage = (fault: InstarError): string =>
  fault.code === 'internal' ? ERRORS.internal.meaning : fault.message

/** The error message inside a stream. Some agents retry only on this wording. */
export const streamMessage = (fault: InstarError): string =>
  fault.retryable
    ? `${clientMessage(fault)} This is a temporary server error: you can retry your request.`
    : clientMessage(fault)

/** The error for an id in a body that is unknown or cannot be continued. */
export const unknownId = (id: string, field: string): InstarError =>
  new InstarError('bad_request', `${JSON.stringify(id.slice(0, 100))} is not an item or a response of this gateway.`, {
    field,
  })

/** Converts any error to an InstarError; unknown ones become `internal`. */
export const asInstarError = (error: unknown): InstarError => {
  if (error instanceof InstarError)
    return error.code === 'context_length_exceeded'
      ? new InstarError(error.code, error.message, { ...error.details, field: 'messages' }, { cause: error })
      : error
  // Deeply nested client JSON overflows the stack: a client error.
  if (error instanceof RangeError && error.message.includes('call stack'))
    return new InstarError('bad_request', 'The request is nested too deeply.', {}, { cause: error })
  return new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
}
