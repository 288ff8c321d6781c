/** vLLM's server with scripted answers: paths, bodies and errors of vLLM 0.32 (`vllm/entrypoints/openai`). */
import { existsSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { event, json, ScriptedServer, type Body, type Seen } from './server.ts'

const fault = (status: number, message: string, type: string): Body => ({
  error: { message, type, param: null, code: status },
})

export class ScriptedVllm extends ScriptedServer {
  /** Name → sha256 of the weights in its folder. */
  readonly loaded = new Map<string, string>()
  readonly loads: string[] = []
  contextLength = 512
  lora = true
  name = 'base'
  /** As servers before `logprob_token_ids`: a field that is not known is ignored. */
  ignoresNamedIds = false
  /** The real one on the CPU exits when `prompt_logprobs` are requested meanwhile. */
  private answering = 0

  protected isProbe(body: Body): boolean {
    return body['stream'] !== true || body['seed'] === 1
  }

  protected async answer(seen: Seen, response: ServerResponse): Promise<void> {
    const { path, body } = seen
    if (path === '/version') return json(response, 200, { version: '0.32.0' })
    if (path === '/v1/models') return json(response, 200, { object: 'list', data: this.cards() })
    if (path === '/tokenize')
      return json(response, 200, {
        count: 0,
        max_model_len: this.contextLength,
        tokens: this.model.encode(String(body['prompt'])),
        token_strs: null,
      })
    if (path === '/v1/load_lora_adapter' && this.lora) return this.load(body, response)
    if (path === '/v1/unload_lora_adapter' && this.lora) {
      this.loaded.delete(String(body['lora_name']))
      return json(response, 200, `Success: LoRA adapter '${String(body['lora_name'])}' removed successfully.`)
    }
    if (path === '/v1/completions') return this.complete(seen, response)
    json(response, 404, { detail: 'Not Found' })
  }

  private cards(): Body[] {
    const card = (id: string, parent: string | null, root: string): Body => ({
      id,
      object: 'model',
      created: 1,
      owned_by: 'vllm',
      root,
      parent,
      max_model_len: parent === null ? this.contextLength : null,
      permission: [],
    })
    return [card(this.name, null, '/models/base'), ...[...this.loaded.keys()].map((name) => card(name, this.name, 'x'))]
  }

  protected load(body: Body, response: ServerResponse): Promise<void> | void {
    const { lora_name: name, lora_path: folder } = body
    if (typeof name !== 'string' || typeof folder !== 'string')
      return json(response, 422, { detail: [{ type: 'missing', loc: ['body', 'lora_name'] }] })
    this.loads.push(name)
    if (this.behaviour.refusesLoad !== undefined)
      return json(response, 400, fault(400, this.behaviour.refusesLoad, 'BadRequestError'))
    if (this.loaded.has(name))
      return json(
        response,
        400,
        fault(
          400,
          `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
          'InvalidUserInput',
        ),
      )
    const weights = join(folder, 'adapter_model.safetensors')
    if (!existsSync(weights) || !existsSync(join(folder, 'adapter_config.json')))
      return json(response, 404, fault(404, `No adapter found for ${folder}`, 'NotFoundError'))
    this.loaded.set(name, createHash('sha256').update(readFileSync(weights)).digest('hex'))
    json(response, 200, `Success: LoRA adapter '${name}' added successfully.`)
  }

  protected async complete(seen: Seen, response: ServerResponse): Promise<void> {
    const { body } = seen
    const asked = String(body['model'])
    const adapter = asked === this.name ? null : this.loaded.get(asked)
    if (adapter === undefined)
      return json(response, 404, fault(404, `The model \`${asked}\` does not exist.`, 'NotFoundError'))
    const prompt = body['prompt'] as number[]
    const limit = Number(body['max_tokens'])
    if (prompt.length + limit > this.contextLength)
      return json(
        response,
        400,
        fault(
          400,
          `This model's maximum context length is ${this.contextLength} tokens. However, you requested ${prompt.length + limit} tokens.`,
          'BadRequestError',
        ),
      )
    const sampling = { temperature: Number(body['temperature']), topK: Number(body['top_k'] ?? 0) }
    if (sampling.temperature < 0 || sampling.temperature > 2)
      return json(
        response,
        400,
        fault(
          400,
          `temperature must be in [0, 2], got ${sampling.temperature}. (parameter=temperature, value=${sampling.temperature})`,
          'BadRequestError',
        ),
      )
    if (body['prompt_logprobs'] === 0 && this.answering > 0) return this.kill()
    if (body['prompt_logprobs'] === 0) {
      const status = this.behaviour.admitScore?.() ?? 200
      if (status !== 200) return json(response, status, fault(status, `scripted ${status}`, 'Scripted'))
      const entries = prompt.map((id, at) =>
        at === 0
          ? null
          : { [id]: { logprob: this.logprob(id, adapter, { temperature: 1, topK: 0 }), rank: 1, decoded_token: '' } },
      )
      return json(response, 200, {
        id: 'cmpl-1',
        object: 'text_completion',
        model: asked,
        choices: [
          {
            index: 0,
            text: 'x',
            prompt_logprobs: entries,
            prompt_token_ids: prompt,
            token_ids: [1],
            finish_reason: 'length',
          },
        ],
        usage: { prompt_tokens: prompt.length, completion_tokens: 1 },
      })
    }
    const named = body['logprob_token_ids'] as number[] | undefined
    if (named && !this.ignoresNamedIds) {
      const status = (await this.behaviour.admitNext?.(seen)) ?? 200
      if (status !== 200) return json(response, status, fault(status, `scripted ${status}`, 'Scripted'))
      const logprobs = await this.logprobsOfNext({ prompt, ids: named, adapter, temperature: sampling.temperature })
      return json(response, 200, {
        id: 'cmpl-1',
        object: 'text_completion',
        model: asked,
        choices: [
          {
            index: 0,
            text: 'x',
            logprobs: {
              text_offset: [0],
              tokens: [`token_id:${named[0]}`],
              token_logprobs: [logprobs[0]],
              top_logprobs: [Object.fromEntries(named.map((id, at) => [`token_id:${id}`, logprobs[at]]))],
            },
            finish_reason: 'length',
          },
        ],
        usage: { prompt_tokens: prompt.length, completion_tokens: 1, total_tokens: prompt.length + 1 },
      })
    }
    const { admit, before, withoutIds, withoutLogprobs, count, refusesGrammar } = this.behaviour
    if (refusesGrammar !== undefined && body['structured_outputs'] !== undefined)
      return json(response, 400, fault(400, refusesGrammar, 'BadRequestError'))
    if (!this.isProbe(body)) {
      const status = (await admit?.(seen)) ?? 200
      if (status !== 200) {
        if (status === 503 || status === 429) response.setHeader('retry-after', '0')
        return json(response, status, fault(status, `scripted ${status}`, 'Scripted'))
      }
    }
    const ids = this.script(prompt, limit, body)
    const ended = ids.at(-1) === this.model.endOfTurn[0]
    const common = { id: 'cmpl-1', object: 'text_completion', created: 1, model: asked }
    if (!this.isProbe(body)) this.answering += 1
    try {
      for (const [at, id] of ids.entries()) {
        if (!this.isProbe(body)) await before?.(at, seen)
        const last = at === ids.length - 1
        const logprob = this.logprob(id, adapter, sampling)
        const second = this.second(id, adapter, sampling)
        await event(response, {
          ...common,
          choices: [
            {
              index: 0,
              text: last && ended ? '' : this.model.decode([id]),
              finish_reason: last ? (ended || ids.length < limit ? 'stop' : 'length') : null,
              stop_reason: null,
              logprobs: withoutLogprobs
                ? null
                : {
                    text_offset: [0],
                    tokens: [`token_id:${id}`],
                    token_logprobs: [logprob],
                    top_logprobs: [{ [`token_id:${id}`]: logprob, [`token_id:${second.id}`]: second.logprob }],
                  },
              ...(at === 0 ? { prompt_token_ids: prompt } : {}),
              ...(withoutIds ? {} : { token_ids: [id] }),
            },
          ],
        })
      }
      if (!this.isProbe(body)) await before?.(ids.length, seen)
      await event(response, {
        ...common,
        choices: [],
        usage: {
          prompt_tokens: prompt.length,
          completion_tokens: count?.(ids.length) ?? ids.length,
          total_tokens: prompt.length + ids.length,
        },
        system_fingerprint: 'vllm-0.32.0-scripted',
      })
      await event(response, '[DONE]')
      response.end()
    } finally {
      if (!this.isProbe(body)) this.answering -= 1
    }
  }

  /** Log-probs of `ids` as the token after `prompt`. */
  protected logprobsOfNext({
    ids,
    adapter,
    temperature,
  }: {
    prompt: readonly number[]
    ids: readonly number[]
    adapter: string | null
    temperature: number
  }): Promise<number[]> {
    return Promise.resolve(ids.map((id) => this.logprob(id, adapter, { temperature, topK: 0 })))
  }

  /** Up to the end of turn, a stop string or the limit, whichever is first. */
  private script(prompt: number[], limit: number, body: Body): number[] {
    const all = this.model.encode(
      this.spoken(this.model.decode(prompt), (body['structured_outputs'] as Body | undefined)?.['grammar']),
    )
    const stops = (body['stop'] as string[] | undefined) ?? []
    const stopped = all.findIndex((_, at) =>
      stops.some((stop) => this.model.decode(all.slice(0, at + 1)).includes(stop)),
    )
    return (stopped >= 0 ? all.slice(0, stopped + 1) : [...all, this.model.endOfTurn[0]!]).slice(0, limit)
  }
}
