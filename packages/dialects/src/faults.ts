/** The error messages that clients receive. */
import { ERRORS, InstarError } from '@instar/events/errors'

/** The message of an `internal` error is replaced by a generic one, since it may contain private data. */
export const clientMessage = (fault: InstarError): string =>
  fault.code === 'internal' ? ERRORS.internal.meaning : fault.message

/** The message of an error inside a stream. Some agents retry only if they find this wording. */
export const streamMessage = (fault: InstarError): string =>
  fault.retryable
    ? `${clientMessage(fault)} This is a temporary server error: you can retry your request.`
    : clientMessage(fault)

/** The error for an id in a request body that this gateway did not issue or cannot continue. */
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
  // Only deeply nested JSON of a client overflows the stack.
  if (error instanceof RangeError && error.message.includes('call stack'))
    return new InstarError('bad_request', 'The request is nested too deeply.', {}, { cause: error })
  return new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
}
