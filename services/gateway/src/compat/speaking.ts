/** Requests for answers that come in by another trainer's URL: the URL names the session, and any model is ours. */
import { parseJson, text } from '@instar/dialects'
import { versionOf } from '../versions/core/model-name.ts'
import type { AnswerReply } from '../generate/completion.ts'
import type { ForeignPorts } from './ports.ts'
import type { ForeignCall } from './route.ts'

/** `prompt`: rollouts of one prompt name it, so that those that were asked the same are one group. */
export type Speaking = { session: string; dialect: keyof ForeignPorts['dialects']; learned: boolean; prompt?: string }

export const speakAt = (
  ports: ForeignPorts,
  call: ForeignCall,
  { session, dialect, learned, prompt }: Speaking,
): Promise<AnswerReply> => {
  const body = parseJson(call.body)
  // Such clients name the model that their own trainer serves; here there is one.
  const named =
    versionOf(text(body, 'model'), ports.policy) === undefined
      ? Buffer.from(JSON.stringify({ ...body, model: ports.policy }))
      : call.body
  return ports.answer({
    dialect: ports.dialects[dialect],
    body: named,
    headers: call.headers,
    key: call.key?.id ?? null,
    segment: session,
    response: call.response(),
    revoked: call.revoked(),
    onFault: call.onFault,
    mayTrain: learned && (call.key?.scopes.includes('train') ?? true),
    ...(prompt === undefined ? {} : { prompt }),
  })
}
