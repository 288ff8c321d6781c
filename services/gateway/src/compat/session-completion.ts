/** Completion requests at another trainer's URL: the URL names the session, and any model name means the policy. */
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
): Promise<AnswerReply> =>
  ports.answer({
    dialect: ports.dialects[dialect],
    body: call.body,
    // Such clients name the model of their own trainer.
    anyModel: true,
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
