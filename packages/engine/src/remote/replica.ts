/** One server: its state (up, or down and probed again with back-off), its adapters and its requests. */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Hold, Model, ScoreRequest } from '../port.ts'
import { isBusy } from '../protocols/faults.ts'
import { MAX_CONSECUTIVE_FAILURES, reopenDelayMs } from '../protocols/routing.ts'
import type { JsonObject } from '@instar/events/json'
import type { Protocol, WireNextRequest, WireRequest } from '../protocols/wire.ts'
import { AnswerAssembly } from './answer-assembly.ts'
import { embeddings } from './embeddings.ts'
import { LoadedAdapters, type StoredAdapter } from './loaded-adapters.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { nextOf, scoreOf } from './logprobs.ts'
import { deltas, probe, wholeDelta, type ReplicaInfo } from './probe.ts'

/** `adapter`: its sha256; null: the base model. */
export type NextRequest = Omit<WireNextRequest, 'model'>

type ReplicaPorts = {
  http: EngineHttp
  protocol: Protocol
  model: Model
  /** The name under which an adapter is loaded. */
  nameFor: (sha256: string) => string
  /** The name of the base model at the server; null: the first that it lists. */
  servedName: string | null
  /** Adapters to load when the server is reopened. */
  adapters: () => Iterable<StoredAdapter>
  /** Throws `engine_mismatch` if this replica serves another model than the others. */
  assertSameModel: (info: ReplicaInfo) => void
  changed: () => void
  logLine: (line: string) => void
}

export class Replica {
  readonly url: string
  running = 0
  /** The reason why the replica is down; null while it is up. */
  problem: string | null = 'the server has not answered yet'
  info: ReplicaInfo | null = null
  private readonly ports: ReplicaPorts
  private readonly adapters: LoadedAdapters
  private failures = 0
  private reopenAttempts = 0
  private timer: NodeJS.Timeout | null = null
  private closed = false
  private lastLine = ''

  constructor(ports: ReplicaPorts) {
    this.ports = ports
    this.url = ports.http.url
    this.adapters = new LoadedAdapters(ports)
  }

  up(): boolean {
    return this.problem === null
  }

  hasAdapter(adapter: string | null): boolean {
    return adapter === null || this.adapters.has(adapter)
  }

  /** Probes the server and loads the adapters. Throws as `probe` and `assertSameModel` do; the replica is then down. */
  async open(): Promise<void> {
    const { http, protocol, model, servedName, assertSameModel, changed } = this.ports
    try {
      const info = await probe(http, protocol, model, servedName)
      assertSameModel(info)
      this.info = info
      this.adapters.clear()
      for (const adapter of this.ports.adapters()) {
        await this.load(adapter).catch((error: unknown) => {
          if (!(error instanceof InstarError)) throw error
          this.ports.logLine(error.message)
        })
      }
      this.problem = null
      this.failures = 0
      this.reopenAttempts = 0
    } catch (error) {
      this.problem = (error as Error).message
      throw error
    } finally {
      changed()
    }
  }

  /** Calls `open` with exponential back-off until it succeeds. */
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
          // An EngineFault means that the replica is still down, which has been reported.
          if (error instanceof InstarError) this.report(error.message)
          this.reopen()
        },
      )
    }, reopenDelayMs(this.reopenAttempts))
    this.reopenAttempts += 1
  }

  /** Throws as `LoadedAdapters.load` does. */
  load(adapter: StoredAdapter): Promise<void> {
    return this.adapters.load(adapter, this.info!)
  }

  unload(sha256: string): Promise<void> {
    return this.adapters.unload(sha256, this.up())
  }

  /** The adapter stays loaded at the engine. */
  forget(sha256: string): void {
    this.adapters.forget(sha256)
  }

  /** Unloads the adapters whose names fit, except those in this list. Returns their names. */
  async removeLeftovers(fits: (name: string) => boolean): Promise<string[]> {
    const { http, protocol } = this.ports
    if (!protocol.adapter) return []
    const left = (await protocol.adapter.list(http.client())).filter(
      (name) => fits(name) && !this.adapters.isLoadedAs(name),
    )
    for (const name of left) await protocol.adapter.unload(http.client(), name)
    return left
  }

  async *generate(
    request: GenerateRequest,
    grammar: string | null,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GeneratedPiece> {
    const { http, protocol } = this.ports
    const newAssembly = this.newAssembly(request)
    this.running += 1
    try {
      for await (const delta of deltas(http, protocol, this.wireRequest(request, grammar), signal, {
        hold: request.hold,
      })) {
        yield* newAssembly.add(delta)
        if (newAssembly.stopFound()) break
      }
      yield this.endPiece(newAssembly)
    } finally {
      this.running -= 1
    }
  }

  /** An answer that is not streamed. Resolves when it is received; iterating throws EngineFault if it has no end. */
  async generateWhole(request: GenerateRequest, signal: AbortSignal | undefined): Promise<Iterable<GeneratedPiece>> {
    const { http, protocol } = this.ports
    const newAssembly = this.newAssembly(request)
    this.running += 1
    try {
      return this.pieces(
        newAssembly,
        newAssembly.add(await wholeDelta(http, protocol, this.wireRequest(request, null), signal, request.hold)),
      )
    } finally {
      this.running -= 1
    }
  }

  private *pieces(newAssembly: AnswerAssembly, pieces: readonly GeneratedPiece[]): Generator<GeneratedPiece> {
    yield* pieces
    yield this.endPiece(newAssembly)
  }

  private newAssembly(request: GenerateRequest): AnswerAssembly {
    const { protocol, model } = this.ports
    return new AnswerAssembly(protocol, model, request, this.info!.logprobs)
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

  private endPiece(newAssembly: AnswerAssembly): GeneratedPiece {
    if (!newAssembly.complete())
      throw new EngineFault('cut', `${this.url} ended a response before the end of the answer`)
    this.failures = 0
    return newAssembly.end()
  }

  embed(
    bodyFor: (served: string) => JsonObject,
    signal: AbortSignal | undefined,
    hold: Hold | undefined,
  ): Promise<Uint8Array> {
    const { http, protocol } = this.ports
    return embeddings(http, protocol.kind, bodyFor(this.info!.model), signal, hold)
  }

  /** Log-probs at temperature 1. */
  score({ prompt, completion, adapter, hold }: ScoreRequest, signal: AbortSignal | undefined): Promise<number[]> {
    const { http, protocol } = this.ports
    const scoreRequest = { model: this.info!.model, adapter: this.adapters.nameOf(adapter), prompt, completion }
    return scoreOf(http, protocol, scoreRequest, signal, hold)
  }

  /** Log-probs of `ids` as the token after `prompt`. */
  next({ adapter, ...request }: NextRequest, signal: AbortSignal | undefined): Promise<number[]> {
    const { http, protocol } = this.ports
    return nextOf(
      http,
      protocol,
      { ...request, model: this.info!.model, adapter: this.adapters.nameOf(adapter) },
      signal,
    )
  }

  /** Counts a failed request. After MAX_CONSECUTIVE_FAILURES of them the replica is down until `open` succeeds. */
  failed(fault: EngineFault, adapter: string | null): void {
    if (adapter !== null && this.ports.protocol.adapterUnknown(fault.status, fault.message)) {
      this.adapters.forget(adapter)
      return
    }
    if (isBusy(fault.status)) return
    this.failures += fault.kind === 'unreachable' ? MAX_CONSECUTIVE_FAILURES : 1
    if (this.failures >= MAX_CONSECUTIVE_FAILURES) this.lost(fault)
  }

  /** The replica is down until `open` succeeds. */
  lost(fault: EngineFault): void {
    if (this.problem !== null || this.closed) return
    this.problem = fault.summary(this.url)
    this.report(`${this.url} is down: ${this.problem}`)
    this.reopen()
    this.ports.changed()
  }

  close(): void {
    this.closed = true
    if (this.timer) clearTimeout(this.timer)
    this.ports.http.close()
  }

  /** Logs a line unless it equals the last one. */
  private report(line: string): void {
    if (this.lastLine !== line) this.ports.logLine(line)
    this.lastLine = line
  }
}
