/** vLLM's HTTP interface on the built-in engine, so that answers can be compared with its computations. */
import type { ServingEngine, Model } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { ScriptedVllm } from './scripted-vllm.ts'
import { event, json, type Body, type Seen } from './server.ts'

export class EmbeddedVllm extends ScriptedVllm {
  /** Changes the weights of adapters that are loaded, as a server that reads them wrongly. */
  distort: ((weights: Uint8Array) => Uint8Array) | null = null
  /** The adapter that is loaded in place of a distorted one. */
  private readonly distorted = new Map<string, string>()
  private readonly engine: ServingEngine

  constructor(model: Model, engine: ServingEngine) {
    super(model, { say: () => '' })
    this.engine = engine
  }

  protected override async load(body: Body, response: ServerResponse): Promise<void> {
    const folder = String(body['lora_path'])
    if (typeof body['lora_path'] === 'string' && readFileSync(join(folder, 'adapter_config.json'), 'utf8') !== '{}')
      await this.loadFrom(readFileSync(join(folder, 'adapter_model.safetensors')))
    else if (typeof body['lora_path'] === 'string')
      return json(response, 500, {
        error: { message: 'KeyError: r', type: 'InternalServerError', param: null, code: 500 },
      })
    await super.load(body, response)
  }

  private async loadFrom(weights: Uint8Array): Promise<void> {
    const adapter = adapterFromWeights(this.distort?.(weights) ?? weights)
    this.distorted.set(adapterFromWeights(weights).sha256, adapter.sha256)
    await this.engine.load(adapter)
  }

  protected override async logprobsOfNext({
    prompt,
    ids,
    adapter,
    temperature,
  }: Parameters<ScriptedVllm['logprobsOfNext']>[0]): Promise<number[]> {
    const applied = this.applied(adapter)
    const request = { prompt, completion: ids.slice(0, 1), adapter: applied, temperature, topLogprobs: 100 }
    const top = (await this.engine.scoreWithTop!(request)).top[0]!
    return Promise.all(
      ids.map(async (id) => {
        const known = top.find((one) => one.id === id)
        if (known) return known.logprob
        return (await this.engine.score({ prompt, completion: [id], adapter: applied, temperature }))[0]!
      }),
    )
  }

  /** The adapter that answers a request for another one. */
  protected applied(adapter: string | null): string | null {
    return this.behaviour.ignoresAdapters || adapter === null ? null : (this.distorted.get(adapter) ?? adapter)
  }

  protected override async complete(seen: Seen, response: ServerResponse): Promise<void> {
    const { body } = seen
    if (body['logprob_token_ids'] !== undefined && !this.ignoresNamedIds) return super.complete(seen, response)
    const asked = String(body['model'])
    const adapter = asked === this.name ? null : this.loaded.get(asked)
    if (adapter === undefined)
      return json(response, 404, {
        error: { message: `The model \`${asked}\` does not exist.`, type: 'NotFoundError', param: null, code: 404 },
      })
    const prompt = body['prompt'] as number[]
    if (body['prompt_logprobs'] === 0) {
      const scored = await this.engine.score({
        prompt: prompt.slice(0, 1),
        completion: prompt.slice(1),
        adapter,
        temperature: 1,
      })
      const entries = [
        null,
        ...[...scored].map((logprob, at) => ({ [prompt[at + 1]!]: { logprob, rank: 1, decoded_token: '' } })),
      ]
      return json(response, 200, {
        choices: [{ index: 0, text: '', prompt_logprobs: entries, finish_reason: 'length' }],
        usage: { prompt_tokens: prompt.length, completion_tokens: 1 },
      })
    }
    const number = (name: string): number => Number(body[name])
    const sampling = {
      temperature: number('temperature'),
      topP: number('top_p'),
      topK: number('top_k'),
      seed: number('seed'),
      maxTokens: number('max_tokens'),
      stop: body['stop'] as string[],
    }
    let count = 0
    const request = { prompt, sampling, adapter: this.applied(adapter), topLogprobs: number('logprobs') }
    for await (const piece of this.engine.generate(request)) {
      const tokens = piece.type === 'tokens' ? piece.tokens : []
      count += tokens.length
      await event(response, {
        id: 'cmpl-1',
        object: 'text_completion',
        model: asked,
        choices: [
          {
            index: 0,
            text: tokens.map(({ text }) => text).join(''),
            token_ids: tokens.map(({ id }) => id),
            finish_reason: piece.type === 'end' ? piece.reason : null,
            logprobs: {
              tokens: tokens.map(({ id }) => `token_id:${id}`),
              token_logprobs: tokens.map(({ logprob }) => logprob),
              top_logprobs: tokens.map(({ top }) =>
                Object.fromEntries(top.map(({ id, logprob }) => [`token_id:${id}`, logprob])),
              ),
              text_offset: tokens.map(() => 0),
            },
          },
        ],
      })
    }
    await event(response, {
      choices: [],
      usage: { prompt_tokens: prompt.length, completion_tokens: count, total_tokens: prompt.length + count },
    })
    await event(response, '[DONE]')
    response.end()
  }
}
