/** Responses, as Codex and the Agents SDK speak it. */
import { chatError } from '../chat/answer.ts'
import type { Dialect } from '../dialect.ts'
import { responsesStream, responsesWhole } from './answer.ts'
import { referencesOf, resolvedBody, unknownReference } from './references.ts'
import { responsesMessages, responsesRequest } from './request.ts'

export const responses: Dialect = {
  name: 'responses',
  references: referencesOf,
  resolved: resolvedBody,
  unknownReference,
  request: responsesRequest,
  messages: responsesMessages,
  whole: responsesWhole,
  stream: responsesStream,
  error: (fault) => chatError(fault),
  callPrefix: 'call',
  ping: null,
}
