/** The judge `llm`: any OpenAI-compatible endpoint. */
import type { LlmConfig } from '../config.ts'
import { judgePrompt, llmId, VERDICT_SCHEMA } from '../core/llm.ts'
import { createModelJudge, type ModelJudge, type ModelPorts } from './model-judge.ts'

export const createLlmJudge = (config: LlmConfig, ports: ModelPorts & { fetch: typeof fetch }): ModelJudge => {
  const { model, votes, temperature, maxTokens, rubric } = config
  const endpoint = `${config.url.replace(/\/+$/, '')}/chat/completions`
  return createModelJudge(
    {
      id: llmId({ model, votes, temperature, maxTokens, rubric }),
      name: `The judge at ${new URL(endpoint).origin}`,
      model,
      schema: VERDICT_SCHEMA,
      prompt: (evidence, nonce) => judgePrompt(evidence, rubric, nonce),
      send: (body, signal) =>
        ports.fetch(endpoint, {
          // Redirects are not followed: conversations are sent only to the host that the operator configured.
          method: 'POST',
          redirect: 'manual',
          signal,
          body,
          headers: {
            'content-type': 'application/json',
            ...(config.key === null ? {} : { authorization: `Bearer ${config.key}` }),
          },
        }),
    },
    config,
    ports,
  )
}
