/** The judge `self`: the base weights of the served model, through the gateway's route for operators. */
import { orAborted } from '@instar/engine/or-aborted'
import type { SelfConfig } from '../config.ts'
import { SELF_SCHEMA, selfId, selfPrompt } from '../core/self.ts'
import { createModelJudge, type ModelJudge, type ModelPorts } from './model-judge.ts'
import { provenPost } from './proven-post.ts'

const PATH = '/admin/judge/chat/completions'

/**
 * `key`: the gateway's admin token, or an API key with the scope admin. `proves`: it is sent only where the gateway has shown
 * that it knows it (`provenPost`).
 */
export type GatewayAddress = { url: string; key: string; proves?: boolean }

/** `gateway` is called for each request; it may wait until the gateway has started. */
export type SelfPorts = ModelPorts & { fetch: typeof fetch; gateway: () => Promise<GatewayAddress> }

export const createSelfJudge = (config: SelfConfig, policy: string, ports: SelfPorts): ModelJudge => {
  const { votes, temperature, maxTokens, rubric, characters } = config
  const model = `${policy}@0`
  return createModelJudge(
    {
      id: selfId(model, { votes, temperature, maxTokens, rubric, characters }),
      name: 'The base of the served model, as a judge,',
      model,
      schema: SELF_SCHEMA,
      prompt: (evidence, nonce) => selfPrompt(evidence, { rubric, characters }, nonce),
      async send(body, signal) {
        const { url: base, key, proves } = await orAborted(ports.gateway(), signal)
        const url = base.replace(/\/+$/, '')
        const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
        if (proves) return provenPost({ url, token: key }, { path: PATH, headers, body }, signal)
        return ports.fetch(`${url}${PATH}`, { method: 'POST', redirect: 'manual', signal, body, headers })
      },
    },
    config,
    ports,
  )
}
