/** The OpenAI Responses API, as Codex and the OpenAI Agents SDK use it. */
import { chatError } from '../chat/answer.ts'
import type { Dialect } from '../dialect.ts'
import { openaiRateHeaders } from '../rate-headers.ts'
import { openaiToolChoice } from '../tool-choice.ts'
import { responsesStream, responsesWhole } from './answer.ts'
import { responsesEngineFields, responsesFormat } from './engine.ts'
import { referencesOf, resolvedBody, unknownReference } from './references.ts'
import { responsesMessages, responsesRequest } from './request.ts'

export const responses: Dialect = {
  name: 'responses',
  path: '/responses',
  references: referencesOf,
  resolved: resolvedBody,
  unknownReference,
  request: responsesRequest,
  messages: responsesMessages,
  whole: responsesWhole,
  stream: responsesStream,
  error: (fault) => chatError(fault),
  toolChoice: openaiToolChoice,
  answerFormat: responsesFormat,
  engineFields: responsesEngineFields,
  rateHeaders: openaiRateHeaders,
  callPrefix: 'call',
  ping: null,
}
