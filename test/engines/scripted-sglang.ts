/**
 * SGLang's server with scripted answers: paths, bodies and errors of SGLang 0.5.23 (`srt/entrypoints/http_server.py`,
 * `srt/managers/tokenizer_manager.py`). Its log-probs are after the temperature and before the filters; a top-k of 1 is
 * greedy.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { writeSafetensors } from '@instar/policy/checkpoints/safetensors'
import { event, json, ScriptedServer, type Body, type Seen } from './server.ts'
import { torchUnpickle } from './torch-unpickle.ts'

export class ScriptedSglang extends ScriptedServer {
  readonly loaded = new Map<string, string>()
  /** `--incremental-streaming-output` */
  incremental = false
  lora = true
  /** Whether it runs on a machine that has the folders of adapters. */
  seesFolders = true
  /** The field of `/load_lora_adapter_from_tensors`; null: it has no such path. Before 0.5.23 it was `serialized_tensors`. */
  tensorsField: string | null = 'serialized_named_tensors'
  /** `--tp-size` */
  processes = 1
  /** The path of each adapter that was ever loaded, from which an evicted one is loaded again. */
  private readonly known = new Map<string, string>()

  /** `--max-loaded-loras` is reached. */
  evict(name: string): void {
    this.loaded.delete(name)
  }

  /** A restart. */
  forgetAll(): void {
    this.loaded.clear()
    this.known.clear()
  }

  protected isProbe(body: Body): boolean {
    return body['stream'] !== true || (body['sampling_params'] as Body)['sampling_seed'] === 1
  }

  protected async answer(seen: Seen, response: ServerResponse): Promise<void> {
    const { path, body } = seen
    if (path === '/model_info')
      return json(response, 200, {
        model_path: '/models/base',
        served_model_name: 'base',
        tokenizer_path: '/models/base',
        is_generation: true,
        weight_version: 'default',
      })
    if (path === '/server_info')
      return json(response, 200, {
        version: '0.5.23',
        enable_lora: this.lora,
        tp_size: this.processes,
        launch_command: 'sglang serve',
        internal_states: [],
      })
    if (path === '/v1/models')
      return json(response, 200, {
        object: 'list',
        data: [
          {
            id: 'base',
            object: 'model',
            created: 1,
            owned_by: 'sglang',
            root: 'base',
            parent: null,
            max_model_len: 512,
          },
        ],
      })
    if (path === '/tokenize')
      return json(response, 200, { tokens: this.model.encode(String(body['prompt'])), count: 1, max_model_len: 512 })
    if (path === '/load_lora_adapter') {
      const refusal = this.load(String(body['lora_name']), String(body['lora_path']))
      return this.updated(response, refusal)
    }
    if (path === '/load_lora_adapter_from_tensors' && this.tensorsField !== null)
      return this.loadTensors(body, this.tensorsField, response)
    if (path === '/unload_lora_adapter') {
      this.loaded.delete(String(body['lora_name']))
      return json(response, 200, {
        success: true,
        error_message: null,
        loaded_adapters: Object.fromEntries(this.loaded),
      })
    }
    if (path === '/generate') return this.generate(seen, response)
    json(response, 404, { detail: 'Not Found' })
  }

  private updated(response: ServerResponse, refusal: string | null): void {
    json(response, refusal === null ? 200 : 400, {
      rid: null,
      http_worker_ipc: null,
      success: refusal === null,
      error_message: refusal ?? '',
      loaded_adapters: Object.fromEntries([...this.loaded.keys()].map((name) => [name, this.known.get(name)!])),
    })
  }

  private refusalOf(name: string): string | null {
    if (!this.lora) return 'LoRA is not enabled. Please set `--enable-lora` to enable LoRA.'
    return this.loaded.has(name) ? `Failed to load LoRA adapter ${name} because it is already loaded` : null
  }

  /** Null, or the reason. */
  private load(name: string, folder: string): string | null {
    const refusal = this.refusalOf(name)
    if (refusal !== null) return refusal
    const weights = join(folder, 'adapter_model.safetensors')
    // A folder that is not there is looked for as a repository of Hugging Face.
    if (!this.seesFolders || !existsSync(weights))
      return `Repo id must be in the form 'repo_name' or 'namespace/repo_name': '${folder}'. Use \`repo_type\` argument if needed.`
    this.loaded.set(name, createHash('sha256').update(readFileSync(weights)).digest('hex'))
    this.known.set(name, folder)
    return null
  }

  private loadTensors(body: Body, field: string, response: ServerResponse): void {
    const missing = ['lora_name', 'config_dict', field].filter((key) => body[key] === undefined)
    if (missing.length > 0)
      return json(response, 400, {
        object: 'error',
        // As it was recorded, without the rest of each error.
        message: `${missing.length} validation errors:\n${missing.map((key) => `  {'type': 'missing', 'loc': ('body', '${key}'), 'msg': 'Field required', 'input': {}}\n`).join('')}`,
        type: 'Bad Request',
        param: null,
        code: 400,
      })
    const name = String(body['lora_name'])
    const refusal = this.refusalOf(name)
    if (refusal !== null) return this.updated(response, refusal)
    const copies = body[field] as string[]
    const config = body['config_dict'] as Body
    if (config['peft_type'] !== 'LORA' || copies.length !== this.processes)
      throw new Error('the scheduler of SGLang would end here')
    const [tensors] = copies.map((copy) => torchUnpickle(Buffer.from(copy, 'base64')))
    // Equal numbers give equal bytes of the file, and with them its digest.
    const file = writeSafetensors(
      new Map([...tensors!].map(([key, { dtype, shape, bytes }]) => [key, { dtype, shape, data: values(bytes) }])),
      new Map([
        ['base_model_name_or_path', String(config['base_model_name_or_path'])],
        ['format', 'pt'],
        ['lora_alpha', String(config['lora_alpha'])],
      ]),
    )
    this.loaded.set(name, createHash('sha256').update(file).digest('hex'))
    this.known.set(name, '__tensor__')
    this.updated(response, null)
  }

  private async generate(seen: Seen, response: ServerResponse): Promise<void> {
    const { body } = seen
    const prompt = body['input_ids'] as number[]
    const sampling = body['sampling_params'] as Body
    const named = (body['lora_path'] ?? null) as string | null
    const path = named === null ? undefined : this.known.get(named)
    const refusal =
      named === null || this.loaded.has(named)
        ? null
        : path === undefined
          ? `Got LoRA adapter that has never been loaded: ${named}\nAll loaded adapters: dict_keys([]).`
          : this.load(named, path)
    const adapter = named === null ? null : this.loaded.get(named)
    if (adapter === undefined) {
      // Detected inside the stream, when the status is already 200.
      await event(response, {
        error: {
          message: path === undefined ? refusal : `Failed to implicitly load LoRA adapter ${named}: ${refusal}`,
          type: 'invalid_request_error',
          code: 400,
          retryable: false,
        },
      })
      await event(response, '[DONE]')
      response.end()
      return
    }
    const limit = Number(sampling['max_new_tokens'])
    if (body['stream'] !== true) {
      const from = Number(body['logprob_start_len'])
      const entries = prompt
        .slice(from)
        .map((id, at) => [at === 0 ? null : this.logprob(id, adapter, { temperature: 1, topK: 0 }), id, null])
      return json(response, 200, {
        text: 'x',
        output_ids: [1],
        meta_info: {
          id: 'r',
          finish_reason: { type: 'length', length: 1 },
          prompt_tokens: prompt.length,
          completion_tokens: 1,
          input_token_logprobs: entries,
          output_token_logprobs: [[-1, 1, null]],
        },
      })
    }
    const { before, withoutIds, withoutLogprobs, count, refusesGrammar } = this.behaviour
    if (refusesGrammar !== undefined && sampling['ebnf'] !== undefined) {
      // Compiled when the request is scheduled, after the stream has begun.
      await event(response, {
        text: '',
        output_ids: [],
        meta_info: {
          id: 'r',
          prompt_tokens: prompt.length,
          completion_tokens: 0,
          finish_reason: { type: 'abort', message: refusesGrammar, status_code: 400, err_type: 'BadRequestError' },
        },
      })
      await event(response, '[DONE]')
      response.end()
      return
    }
    const ids = [
      ...this.model.encode(this.spoken(this.model.decode(prompt), sampling['ebnf'])),
      this.model.endOfTurn[0]!,
    ].slice(0, limit)
    const greedy = sampling['top_k'] === 1
    const drawn = { temperature: greedy ? 1 : Number(sampling['temperature']), topK: 0 }
    const logprobs = ids.map((id) => [this.logprob(id, adapter, drawn), id, null])
    const tops = ids.map((id) => {
      const second = this.second(id, adapter, drawn)
      return [
        [this.logprob(id, adapter, drawn), id, null],
        [second.logprob, second.id, null],
      ]
    })
    let sent = 0
    for (let upTo = 1; upTo <= ids.length; upTo += upTo === 1 ? 1 : 2) {
      if (!this.isProbe(body)) await before?.(upTo - 1, seen)
      sent = await this.part(response, {
        ids,
        logprobs: withoutLogprobs ? [] : logprobs,
        tops,
        withIds: !withoutIds,
        prompt,
        sent,
        upTo,
        total: count?.(upTo) ?? upTo,
        last: upTo === ids.length,
      })
    }
    if (sent < ids.length)
      await this.part(response, {
        ids,
        logprobs: withoutLogprobs ? [] : logprobs,
        tops,
        withIds: !withoutIds,
        prompt,
        sent,
        upTo: ids.length,
        total: count?.(ids.length) ?? ids.length,
        last: true,
      })
    await event(response, '[DONE]')
    response.end()
  }

  private async part(
    response: ServerResponse,
    {
      ids,
      logprobs,
      tops,
      withIds,
      prompt,
      sent,
      upTo,
      total,
      last,
    }: {
      ids: number[]
      logprobs: unknown[]
      tops: unknown[]
      withIds: boolean
      prompt: number[]
      sent: number
      upTo: number
      total: number
      last: boolean
    },
  ): Promise<number> {
    const from = this.incremental ? sent : 0
    const ended = ids.at(-1) === this.model.endOfTurn[0]
    await event(response, {
      text: withIds ? null : this.model.decode(ids.slice(this.incremental ? sent : 0, upTo)),
      ...(withIds ? { output_ids: ids.slice(from, upTo) } : {}),
      meta_info: {
        id: 'r',
        prompt_tokens: prompt.length,
        completion_tokens: total,
        cached_tokens: 0,
        weight_version: 'default',
        finish_reason: last
          ? ended
            ? { type: 'stop', matched: this.model.endOfTurn[0] }
            : { type: 'length', length: ids.length }
          : null,
        output_token_logprobs: logprobs.slice(from, upTo),
        output_top_logprobs: tops.slice(from, upTo),
      },
    })
    return upTo
  }
}

const values = (bytes: Buffer): Float32Array => new Float32Array(Uint8Array.from(bytes).buffer)
