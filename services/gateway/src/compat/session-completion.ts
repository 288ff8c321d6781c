/** Completion requests at another trainer's URL: the URL names the session, and any model name means the policy. */
import { parseJson, text } from '@instar/dialects'
import { versionOf } from '../versions/core/model-name.ts'
import type { AnswerReply } from '../generate/context.ts'
import type { CompatPorts } from './ports.ts'
import type { CompatCall } from './route.ts'

/** `prompt`: a name that rollouts of one prompt share, so that they form one group. */
type SessionCompletion = {
  session: string
  dialect: keyof CompatPorts['dialects']
  learned: boolean
  prompt?: string
  /** The task of the episode; '' if it is not known. */
  task: string
}

export const completeInSession = (
  ports: CompatPorts,
  call: CompatCall,
  { session, dialect, learned, prompt, task }: SessionCompletion,
): Promise<AnswerReply> => {
  const body = parseJson(call.body)
  // Such clients name the model of their own trainer. It is replaced by the policy's name.
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
    hold: call.hold,
    mayTrain: learned && (call.key?.scopes.includes('train') ?? true),
    task,
    ...(prompt === undefined ? {} : { prompt }),
  })
}
