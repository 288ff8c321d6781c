/** A `ServingEngine` with scripted answers, token by token with the ids of the real tokenizer. */
import { InstarError } from '@instar/events'
import type { Adapter, Capabilities, GenerateRequest, GeneratedPiece, Model, ServingEngine } from '@instar/engine/port'
import { setImmediate } from 'node:timers/promises'

/**
 * `before(i)` is awaited before token i; an exception is a failure of the engine. `stop`: the stop string that ends the
 * answer.
 */
export type Reply = {
  text: string
  stop?: string
  reason?: 'stop' | 'length'
  before?: (token: number, signal: AbortSignal | undefined) => Promise<void> | void
}
export type Script = (request: GenerateRequest, prompt: string) => Reply | string

export class ScriptedEngine implements ServingEngine {
  readonly loaded = new Map<string, Adapter>()
  readonly requests: GenerateRequest[] = []
  aborted = 0
  waiting = 0
  beforeLoad: (sha256: string) => Promise<void> = () => Promise.resolve()
  script: Script
  private readonly model: Model

  constructor(model: Model, script: Script) {
    this.model = model
    this.script = script
  }

  capabilities(): Capabilities {
    return {
      engine: 'scripted',
      fingerprint: 'scripted-1',
      contextLength: this.model.contextLength,
      vocabulary: this.model.vocabulary,
      tokenExact: true,
      logprobs: true,
      maxBatch: 8,
    }
  }

  async load(adapter: Adapter): Promise<void> {
    await this.beforeLoad(adapter.sha256)
    this.loaded.set(adapter.sha256, adapter)
  }

  async unload(sha256: string): Promise<void> {
    this.loaded.delete(sha256)
  }

  async *generate(request: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece> {
    if (request.adapter !== null && !this.loaded.has(request.adapter))
      throw new InstarError('unknown_adapter', 'not loaded')
    this.requests.push(request)
    const said = this.script(request, this.model.decode(request.prompt))
    const reply: Reply = typeof said === 'string' ? { text: said } : said
    const ids = this.model.encode(reply.text).slice(0, request.sampling.maxTokens)
    const full = ids.length === request.sampling.maxTokens
    let shown = ''
    for (let i = 0; i <= ids.length; i += 1) {
      await setImmediate()
      await reply.before?.(i, signal)
      if (signal?.aborted) {
        this.aborted += 1
        throw new InstarError('aborted', 'given up')
      }
      if (i === ids.length) break
      const whole = this.model.decode(ids.slice(0, i + 1)).replace(/\ufffd+$/, '')
      const id = ids[i]!
      yield {
        type: 'tokens',
        tokens: [
          {
            id,
            logprob: logprobOf(id),
            text: whole.slice(shown.length),
            top: [{ id, logprob: logprobOf(id) }].slice(0, request.topLogprobs),
          },
        ],
      }
      shown = whole
    }
    if (reply.stop !== undefined) {
      yield {
        type: 'tokens',
        tokens: this.model.encode(reply.stop).map((id) => ({ id, logprob: logprobOf(id), text: '', top: [] })),
      }
      yield { type: 'end', reason: 'stop', text: '' }
      return
    }
    const reason = reply.reason ?? (full ? 'length' : 'stop')
    const end = this.model.endOfTurn[0]!
    if (reason === 'stop') yield { type: 'tokens', tokens: [{ id: end, logprob: logprobOf(end), text: '', top: [] }] }
    yield { type: 'end', reason, text: '' }
  }

  async score(): Promise<Float32Array> {
    return new Float32Array(0)
  }

  pending(): { running: number; waiting: number } {
    return { running: 0, waiting: this.waiting }
  }

  async close(): Promise<void> {
    this.loaded.clear()
  }
}

export const logprobOf = (id: number): number => -((id % 13) + 1) / 10

/** A promise that a test resolves. */
export const gate = (): { open: () => void; passed: Promise<void> } => {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { open: resolve, passed: promise }
}
