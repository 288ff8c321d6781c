/** The messages of errors that clients receive. */
import { ERRORS, InstarError } from '@instar/events/errors'

/** A defect of ours says nothing of its inside. */
export const clientMessage = (fault: InstarError): string =>
  fault.code === 'internal' ? ERRORS.internal.meaning : fault.message

/** The end of a stream that began well. Agents that go by words try again for these alone. */
export const streamMessage = (fault: InstarError): string =>
  fault.retryable
    ? `${clientMessage(fault)} This is a temporary server error: you can retry your request.`
    : clientMessage(fault)

/** An id in a body that stands for nothing on the log, or for nothing that may be gone on from. */
export const unknownId = (id: string, field: string): InstarError =>
  new InstarError('bad_request', `${JSON.stringify(id.slice(0, 100))} is not an item or a response of this gateway.`, {
    field,
  })

/** A route's error as one of ours; anything else is a defect. */
export const asInstarError = (error: unknown): InstarError => {
  if (error instanceof InstarError)
    return error.code === 'context_length_exceeded'
      ? new InstarError(error.code, error.message, { ...error.details, field: 'messages' }, { cause: error })
      : error
  // What nests a client's JSON so deep is no defect of ours.
  if (error instanceof RangeError && error.message.includes('call stack'))
    return new InstarError('bad_request', 'The request is nested too deeply.', {}, { cause: error })
  return new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
}
