/** The OpenAI Chat Completions API. Requests of all dialects are converted to its messages and tools. */
import type { Dialect } from '../dialect.ts'
import { openaiRateHeaders } from '../rate-headers.ts'
import { openaiToolChoice } from '../tool-choice.ts'
import { unknownId } from '../faults.ts'
import { chatError, chatStream, chatWhole } from './answer.ts'
import { chatEngineFields, chatFormat } from './engine.ts'
import { chatMessages, chatRequest } from './request.ts'

export const chat: Dialect = {
  name: 'chat',
  path: '/chat/completions',
  references: () => [],
  resolved: (body) => body,
  unknownReference: (_body, id) => unknownId(id, 'messages'),
  request: chatRequest,
  messages: chatMessages,
  whole: chatWhole,
  stream: chatStream,
  error: (fault) => chatError(fault),
  toolChoice: openaiToolChoice,
  answerFormat: chatFormat,
  engineFields: chatEngineFields,
  rateHeaders: openaiRateHeaders,
  callPrefix: 'call',
  ping: null,
}
