/** `/v1/embeddings`, with the time limit and the place in the engine's queue that an answer has. */
import { parseJson } from '@instar/dialects'
import { InstarError } from '@instar/events'
import { embeddingRequest } from './core/embeddings.ts'
import type { AnswerCall, AnswerPorts } from './context.ts'
import { requesting, type RequestPorts } from './request.ts'

export type EmbeddingCall = Pick<AnswerCall, 'body' | 'response' | 'revoked' | 'hold'>

export const embed = (ports: RequestPorts & Pick<AnswerPorts, 'policy'>, call: EmbeddingCall): Promise<Uint8Array> => {
  const { engine, policy } = ports
  const asked = parseJson(call.body)
  if (!engine.embed)
    throw new InstarError('not_available', `The engine ${engine.capabilities().engine} has no embeddings.`)
  return requesting(ports, call, ({ before, controller: { signal }, takePlace }) => {
    takePlace()
    return before(engine.embed!((served) => embeddingRequest(asked, policy, served), signal, call.hold))
  })
}
