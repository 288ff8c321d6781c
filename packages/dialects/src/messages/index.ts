/** The Anthropic Messages API, with message threads as Claude Code uses them. */
import type { Dialect } from '../dialect.ts'
import { anthropicRateHeaders } from '../rate-headers.ts'
import { messagesError, messagesStream, messagesWhole, PING } from './answer.ts'
import { messagesEngineFields, messagesFormat, messagesToolChoice } from './engine.ts'
import { messagesMessages, messagesRequest } from './request.ts'
import { continuedBody, threadReferences, unknownThread } from './thread.ts'

export { sessionOfMetadata } from './request.ts'

export const messages: Dialect = {
  name: 'messages',
  path: '/messages',
  references: threadReferences,
  resolved: continuedBody,
  unknownReference: unknownThread,
  request: messagesRequest,
  messages: messagesMessages,
  whole: messagesWhole,
  stream: messagesStream,
  error: messagesError,
  toolChoice: messagesToolChoice,
  answerFormat: messagesFormat,
  engineFields: messagesEngineFields,
  rateHeaders: anthropicRateHeaders,
  callPrefix: 'toolu',
  ping: PING,
}
