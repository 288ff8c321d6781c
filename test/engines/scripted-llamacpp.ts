/**
 * llama.cpp's server (`tools/server`, native `/completion`) with scripted answers. Like the real one it sends no event
 * for a token that ends inside a character and continues with whole text.
 */
import type { ServerResponse } from 'node:http'
import { event, json, ScriptedServer, type Body, type Seen } from './server.ts'

export class ScriptedLlamacpp extends ScriptedServer {
  /** Paths of `--lora`. */
  files: string[] = []

  protected isProbe(body: Body): boolean {
    return body['seed'] === 1 || body['seed'] === 0
  }

  protected async answer(seen: Seen, response: ServerResponse): Promise<void> {
    const { path, body } = seen
    if (path === '/props')
      return json(response, 200, {
        default_generation_settings: { n_ctx: 512, id: 0 },
        total_slots: 4,
        model_path: '/models/tiny-f16.gguf',
        build_info: 'b9999-abc',
        chat_template: '…',
      })
    if (path === '/lora-adapters')
      return json(
        response,
        200,
        this.files.map((file, id) => ({ id, path: file, scale: 0, task_name: '', prompt_prefix: '' })),
      )
    if (path === '/tokenize') return json(response, 200, { tokens: this.model.encode(String(body['content'])) })
    if (path === '/completion') return this.complete(seen, response)
    json(response, 404, { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } })
  }

  private async complete(seen: Seen, response: ServerResponse): Promise<void> {
    const { body } = seen
    const prompt = body['prompt'] as number[]
    if (prompt.length >= 512)
      return json(response, 400, {
        error: {
          code: 400,
          message: 'the request exceeds the available context size, try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: prompt.length,
          n_ctx: 512,
        },
      })
    if (this.behaviour.refusesGrammar !== undefined && body['grammar'] !== undefined)
      return json(response, 400, {
        error: { code: 400, message: this.behaviour.refusesGrammar, type: 'invalid_request_error' },
      })
    const [lora] = body['lora'] as { id: number; scale: number }[]
    const adapter = lora ? this.files[lora.id]! : null
    const { before, withoutIds, withoutLogprobs } = this.behaviour
    const ids = [
      ...this.model.encode(this.spoken(this.model.decode(prompt), body['grammar'])),
      this.model.endOfTurn[0]!,
    ].slice(0, Number(body['n_predict']))
    const post = body['post_sampling_probs'] === true
    const sampling = post
      ? { temperature: Number(body['temperature']), topK: Number(body['top_k']) }
      : { temperature: 1, topK: 0 }
    let sent = ''
    for (const [at, id] of ids.entries()) {
      if (!this.isProbe(body)) await before?.(at, seen)
      const whole = this.model.decode(ids.slice(0, at + 1))
      if (whole.endsWith('\ufffd')) continue
      const logprob = this.logprob(id, adapter, sampling)
      const second = this.second(id, adapter, sampling)
      await event(response, {
        index: 0,
        content: whole.slice(sent.length),
        tokens: withoutIds ? [] : [id],
        stop: false,
        id_slot: 0,
        tokens_predicted: at + 1,
        tokens_evaluated: prompt.length,
        ...(withoutLogprobs
          ? {}
          : {
              completion_probabilities: [
                post
                  ? {
                      id,
                      token: '',
                      bytes: [],
                      prob: Math.exp(logprob),
                      top_probs: [
                        { id, token: '', bytes: [], prob: Math.exp(logprob) },
                        { id: second.id, token: '', bytes: [], prob: Math.exp(second.logprob) },
                      ],
                    }
                  : { id, token: '', bytes: [], logprob, top_logprobs: [] },
              ],
            }),
      })
      sent = whole
    }
    const ended = ids.at(-1) === this.model.endOfTurn[0]
    await event(response, {
      index: 0,
      content: '',
      tokens: [],
      id_slot: 0,
      stop: true,
      model: 'tiny',
      tokens_predicted: ids.length,
      tokens_evaluated: prompt.length,
      stop_type: ended ? 'eos' : 'limit',
      stopping_word: '',
      truncated: false,
      timings: {},
    })
    response.end()
  }
}
