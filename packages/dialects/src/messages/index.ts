/** Anthropic Messages, as Claude Code speaks it. */
import type { Dialect } from '../dialect.ts'
import { messagesError, messagesStream, messagesWhole, PING } from './answer.ts'
import { messagesMessages, messagesRequest } from './request.ts'
import { continuedBody, threadReferences, unknownThread } from './thread.ts'

export { sessionOfMetadata } from './request.ts'

export const messages: Dialect = {
  name: 'messages',
  references: threadReferences,
  resolved: continuedBody,
  unknownReference: unknownThread,
  request: messagesRequest,
  messages: messagesMessages,
  whole: messagesWhole,
  stream: messagesStream,
  error: messagesError,
  callPrefix: 'toolu',
  ping: PING,
}
