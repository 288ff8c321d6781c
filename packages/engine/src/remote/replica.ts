/** One server: what is known of it, which adapters it holds, and whether it is asked at all. */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Model } from '../port.ts'
import { isBusy } from '../protocols/faults.ts'
import { FAILURES_IN_A_ROW_MAX, reopenDelayMs } from '../protocols/routing.ts'
import type { JsonObject } from '@instar/events/json'
import type { WireRequest, Protocol } from '../protocols/wire.ts'
import { Assembly } from './assembly.ts'
import { embeddings } from './embeddings.ts'
import { HeldAdapters, type StoredAdapter } from './held-adapters.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { deltas, probe, scoreOf, wholeDelta, type ReplicaInfo } from './probe.ts'

export type ReplicaPorts = {
  http: EngineHttp
  protocol: Protocol
  model: Model
  /** The model's name there; null: the first that it lists. */
  named: string | null
  /** What it should hold when it comes back. */
  wanted: () => Iterable<StoredAdapter>
  /** Throws where what this replica serves is not what the others serve. */
  assertSameModel: (info: ReplicaInfo) => void
  changed: () => void
  say: (line: string) => void
}

export class Replica {
  readonly url: string
  running = 0
  /** Why it is not asked; null while it is. */
  problem: string | null = 'it has not answered yet'
  info: ReplicaInfo | null = null
  private readonly ports: ReplicaPorts
  private readonly adapters: HeldAdapters
  private failures = 0
  private reopenings = 0
  private timer: NodeJS.Timeout | null = null
  private closed = false
  private lastLine = ''

  constructor(ports: ReplicaPorts) {
    this.ports = ports
    this.url = ports.http.url
    this.adapters = new HeldAdapters(ports)
  }

  up(): boolean {
    return this.problem === null
  }

  holds(adapter: string | null): boolean {
    return adapter === null || this.adapters.has(adapter)
  }

  /** Gets to know it. Throws what `probe` does; it is then not asked. */
  async open(): Promise<void> {
    const { http, protocol, model, named, assertSameModel, changed } = this.ports
    try {
      const info = await probe(http, protocol, model, named)
      assertSameModel(info)
      this.info = info
      this.adapters.clear()
      for (const adapter of this.ports.wanted()) {
        await this.load(adapter).catch((error: unknown) => {
          if (!(error instanceof InstarError)) throw error
          this.ports.say(error.message)
        })
      }
      this.problem = null
      this.failures = 0
      this.reopenings = 0
    } catch (error) {
      this.problem = (error as Error).message
      throw error
    } finally {
      changed()
    }
  }

  /** Tries to open it again and again. */
  reopen(): void {
    if (this.timer || this.closed) return
    this.timer = setTimeout(() => {
      this.timer = null
      if (this.closed) return
      this.open().then(
        () => {
          this.report(`${this.url} answers again`)
        },
        (error: unknown) => {
          // That it is away has been said; that something else is there has not.
          if (error instanceof InstarError) this.report(error.message)
          this.reopen()
        },
      )
    }, reopenDelayMs(this.reopenings))
    this.reopenings += 1
  }

  /** Throws as `HeldAdapters.load` does. */
  load(adapter: StoredAdapter): Promise<void> {
    return this.adapters.load(adapter, this.info!)
  }

  unload(sha256: string): Promise<void> {
    return this.adapters.unload(sha256, this.up())
  }

  async *generate(
    request: GenerateRequest,
    grammar: string | null,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GeneratedPiece> {
    const { http, protocol } = this.ports
    const assembly = this.assembly(request)
    this.running += 1
    try {
      for await (const delta of deltas(http, protocol, this.wireRequest(request, grammar), signal)) {
        yield* assembly.add(delta)
        if (assembly.reachedStop()) break
      }
      yield this.endPiece(assembly)
    } finally {
      this.running -= 1
    }
  }

  /** The pieces of an answer that is asked for in one: nothing of it is there before all of it. The last throws as `generate` does where it is no end. */
  async generateWhole(request: GenerateRequest, signal: AbortSignal | undefined): Promise<Iterable<GeneratedPiece>> {
    const { http, protocol } = this.ports
    const assembly = this.assembly(request)
    this.running += 1
    try {
      return this.pieces(
        assembly,
        assembly.add(await wholeDelta(http, protocol, this.wireRequest(request, null), signal)),
      )
    } finally {
      this.running -= 1
    }
  }

  private *pieces(assembly: Assembly, shown: readonly GeneratedPiece[]): Generator<GeneratedPiece> {
    yield* shown
    yield this.endPiece(assembly)
  }

  private assembly(request: GenerateRequest): Assembly {
    const { protocol, model } = this.ports
    return new Assembly(protocol, model, request, this.info!.logprobs)
  }

  private wireRequest(
    { adapter, prompt, sampling, topLogprobs, chat, reweighting }: GenerateRequest,
    grammar: string | null,
  ): WireRequest {
    const { endOfTurn } = this.ports.model
    const wireRequest: WireRequest = {
      model: this.info!.model,
      adapter: this.adapters.nameOf(adapter),
      prompt,
      sampling,
      topLogprobs,
      endOfTurn,
      chat: chat ?? null,
      ...(reweighting ? { reweighting } : {}),
    }
    return grammar === null ? wireRequest : { ...wireRequest, grammar }
  }

  private endPiece(assembly: Assembly): GeneratedPiece {
    if (!assembly.complete()) throw new EngineFault('cut', `${this.url} ended an answer without its end`)
    this.failures = 0
    return assembly.end()
  }

  embed(bodyFor: (served: string) => JsonObject, signal: AbortSignal | undefined): Promise<JsonObject> {
    const { http, protocol } = this.ports
    return embeddings(http, protocol.kind, bodyFor(this.info!.model), signal)
  }

  /** Log-probs at temperature 1. */
  score(prompt: readonly number[], completion: readonly number[], adapter: string | null): Promise<number[]> {
    const { http, protocol } = this.ports
    return scoreOf(http, protocol, {
      model: this.info!.model,
      adapter: this.adapters.nameOf(adapter),
      prompt,
      completion,
    })
  }

  /** What came of a request: a replica that fails is left alone for a while. */
  failed(fault: EngineFault, adapter: string | null): void {
    if (adapter !== null && this.ports.protocol.adapterUnknown(fault.status, fault.message)) {
      this.adapters.forget(adapter)
      return
    }
    if (isBusy(fault.status)) return
    this.failures += fault.kind === 'unreachable' ? FAILURES_IN_A_ROW_MAX : 1
    if (this.failures >= FAILURES_IN_A_ROW_MAX && this.problem === null) {
      this.problem = fault.brief(this.url)
      this.report(`${this.url} is left alone for now: ${this.problem}`)
      this.reopen()
      this.ports.changed()
    }
  }

  close(): void {
    this.closed = true
    if (this.timer) clearTimeout(this.timer)
    this.ports.http.close()
  }

  /** What was said last is not said again. */
  private report(line: string): void {
    if (this.lastLine !== line) this.ports.say(line)
    this.lastLine = line
  }
}
