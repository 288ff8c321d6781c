/** One server: its state (up, or down and reopened with back-off), its adapters and its requests. */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Model, ScoreRequest } from '../port.ts'
import { isBusy } from '../protocols/faults.ts'
import { FAILURES_IN_A_ROW_MAX, reopenDelayMs } from '../protocols/routing.ts'
import type { JsonObject } from '@instar/events/json'
import type { WireRequest, Protocol } from '../protocols/wire.ts'
import { Assembly } from './assembly.ts'
import { embeddings } from './embeddings.ts'
import { HeldAdapters, type StoredAdapter } from './held-adapters.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { deltas, probe, scoreOf, wholeDelta, type ReplicaInfo } from './probe.ts'

type ReplicaPorts = {
  http: EngineHttp
  protocol: Protocol
  model: Model
  /** Name of the base model at the server; null: the first that it lists. */
  named: string | null
  /** Adapters to load when the server is reopened. */
  wanted: () => Iterable<StoredAdapter>
  /** Throws `engine_mismatch` if this replica serves another model than the others. */
  assertSameModel: (info: ReplicaInfo) => void
  changed: () => void
  say: (line: string) => void
}

export class Replica {
  readonly url: string
  running = 0
  /** Why the replica is down; null while it is up. */
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

  /** Probes the server and loads its adapters. Throws as `probe` does; the replica is then down. */
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

  /** Opens it again, with exponential back-off, until that succeeds. */
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
          // That the replica is down was reported before; that it serves something else was not.
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

  /** An answer that is not streamed: resolves when it is complete. Iterating throws as `generate` does if it has no end. */
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
  score({ prompt, completion, adapter }: ScoreRequest, signal: AbortSignal | undefined): Promise<number[]> {
    const { http, protocol } = this.ports
    const given = { model: this.info!.model, adapter: this.adapters.nameOf(adapter), prompt, completion }
    return scoreOf(http, protocol, given, signal)
  }

  /** Counts a failed request. After FAILURES_IN_A_ROW_MAX of them the replica is down until it can be reopened. */
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

  /** Logs a line, unless it repeats the last one. */
  private report(line: string): void {
    if (this.lastLine !== line) this.ports.say(line)
    this.lastLine = line
  }
}
