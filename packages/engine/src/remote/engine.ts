/** The `ServingEngine` over one or more HTTP servers: adapters are loaded on all of them, a request runs on one. */
import { InstarError } from '@instar/events'
import type {
  Adapter,
  Capabilities,
  Constraint,
  GeneratedPiece,
  GenerateRequest,
  Hold,
  Load,
  Model,
  ScoreRequest,
  ServingEngine,
} from '../port.ts'
import { isBusy } from '../protocols/faults.ts'
import type { Protocol } from '../protocols/wire.ts'
import type { AdapterFiles } from './adapter-files.ts'
import { Fleet, type RetryPolicy } from './fleet.ts'
import { Grammars } from './grammars.ts'
import { EngineFault } from './http.ts'
import type { Replica } from './replica.ts'

/** Assumed number of concurrent requests of a server that does not report it. */
const DEFAULT_CONCURRENT = 256

const asScoreError = (fault: EngineFault): InstarError =>
  isBusy(fault.status)
    ? new InstarError(
        'overloaded',
        `The engine is overloaded: ${fault.message}.`,
        fault.retryAfterMs === null ? {} : { retryAfterMs: fault.retryAfterMs },
      )
    : new InstarError('engine_lost', `The request for log-probs failed: ${fault.message}.`, {}, { cause: fault })

export class RemoteEngine implements ServingEngine {
  private readonly protocol: Protocol
  private readonly model: Model
  private readonly replicas: readonly Replica[]
  private readonly files: Pick<AdapterFiles, 'write' | 'prune'>
  private readonly isNeutral: (adapter: Adapter) => boolean
  private readonly accepts: NonNullable<Capabilities['accepts']>
  private readonly logLine: (line: string) => void
  private readonly grammars: Grammars
  readonly fleet: Fleet
  /** Cached; null after a replica has changed. */
  private description: Capabilities | null = null

  constructor(parts: {
    protocol: Protocol
    model: Model
    replicas: readonly Replica[]
    files: Pick<AdapterFiles, 'write' | 'prune'>
    isNeutral: (adapter: Adapter) => boolean
    retry: RetryPolicy
    accepts?: Capabilities['accepts']
    logLine: (line: string) => void
  }) {
    this.protocol = parts.protocol
    this.model = parts.model
    this.replicas = parts.replicas
    this.files = parts.files
    this.isNeutral = parts.isNeutral
    this.fleet = new Fleet(parts.protocol.kind, parts.replicas, parts.retry)
    this.accepts = parts.accepts ?? []
    this.logLine = parts.logLine
    this.grammars = new Grammars(parts.model)
  }

  capabilities(): Capabilities {
    return (this.description ??= this.describe())
  }

  private describe(): Capabilities {
    const info = this.replicas.flatMap((replica) => replica.info ?? [])
    const versions = [...new Set(info.map(({ version, model }) => `${this.protocol.kind} ${version}, ${model}`))]
    const lengths = info.flatMap(({ contextLength }) => contextLength ?? [])
    return {
      engine: this.protocol.kind,
      fingerprint: versions.join('; '),
      contextLength: Math.min(this.model.contextLength, ...lengths),
      vocabulary: this.model.vocabulary,
      tokenExact: this.protocol.ids,
      logprobs: this.protocol.ids,
      maxBatch: this.capacity(),
      ...(this.protocol.ids ? {} : { chat: true, accepts: this.accepts }),
    }
  }

  pending(): Load {
    const running = this.replicas.reduce((sum, replica) => sum + replica.running, 0)
    return { running: Math.min(running, this.capacity()), waiting: Math.max(0, running - this.capacity()) }
  }

  lost(): string | null {
    return this.fleet.lost()
  }

  /**
   * Loads the adapter on every replica that is up, and resolves when the first one has it: requests go there until the
   * others follow. Throws only if it fails on all of them, or if none is up (`engine_lost`). A replica that refuses the
   * adapter serves no requests for it; one that does not answer is down until it is opened again.
   */
  async load(adapter: Adapter): Promise<void> {
    const lost = this.lost()
    if (lost !== null) throw new InstarError('engine_lost', lost)
    const stored = { sha256: adapter.sha256, folder: await this.files.write(adapter), neutral: this.isNeutral(adapter) }
    const loads = this.fleet.up().map((replica) => ({ replica, loaded: replica.load(stored) }))
    try {
      await Promise.any(loads.map(({ loaded }) => loaded))
    } catch (error) {
      const [fault] = (error as AggregateError).errors as Error[]
      throw fault instanceof InstarError ? fault : new InstarError('engine_lost', fault!.message)
    }
    this.fleet.adapters.set(adapter.sha256, stored)
    for (const load of loads) void this.follow(load, adapter.sha256)
    await this.files.prune(new Set(this.fleet.adapters.keys()))
  }

  /** Reports a replica that loads an adapter after another one, or does not. */
  private async follow(
    { replica, loaded }: { replica: Replica; loaded: Promise<void> },
    sha256: string,
  ): Promise<void> {
    if (replica.hasAdapter(sha256)) return
    try {
      await loaded
      this.logLine(`${replica.url} has loaded the adapter ${sha256.slice(0, 12)} as well`)
    } catch (error) {
      if (error instanceof EngineFault) replica.lost(error)
      else this.logLine((error as Error).message)
    }
  }

  async unload(sha256: string): Promise<void> {
    this.fleet.adapters.delete(sha256)
    const outcomes = await Promise.allSettled(this.replicas.map((replica) => replica.unload(sha256)))
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        this.logLine(`unloading adapter ${sha256.slice(0, 12)} failed: ${(outcome.reason as Error).message}`)
  }

  /** Remote engines get the same grammar as the embedded engine uses, so both accept the same constraints. */
  async check(constraint: Constraint): Promise<void> {
    const unenforced = this.replicas.some((replica) => replica.up() && replica.info?.grammar === false)
    if (unenforced)
      throw new InstarError(
        'bad_request',
        `The engine ${this.protocol.kind} does not enforce grammars. Send the request without a schema and without a forced tool call.`,
        { field: constraint.json?.field ?? 'tool_choice' },
      )
    await this.grammars.of(constraint)
  }

  async *generate(request: GenerateRequest, signal?: AbortSignal): AsyncGenerator<GeneratedPiece> {
    const grammar = request.constraint ? await this.grammars.of(request.constraint) : null
    const { attempts, next } = this.fleet.rounds(request, signal)
    for (;;) {
      for (const replica of await next()) {
        let began = false
        try {
          signal?.throwIfAborted()
          await this.fleet.ensureAdapter(replica, request.adapter, signal)
          for await (const piece of request.chat?.stream === false
            ? await replica.generateWhole(request, signal)
            : replica.generate(request, grammar, signal)) {
            began = true
            yield piece
          }
          return
        } catch (error) {
          attempts.failed(error, replica, began)
        }
      }
    }
  }

  /** The adapter stays loaded at the replicas, for others. */
  release(sha256: string): void {
    this.fleet.adapters.delete(sha256)
    for (const replica of this.replicas) replica.forget(sha256)
  }

  async score(request: ScoreRequest, signal?: AbortSignal): Promise<Float32Array> {
    const { adapter } = request
    if (request.temperature !== 1)
      throw new InstarError(
        'not_available',
        `A remote engine computes log-probs of given tokens only at temperature 1, not ${request.temperature}.`,
      )
    const replica = this.replicas.find((one) => one.up() && one.hasAdapter(adapter))
    if (!replica)
      throw new InstarError('unknown_adapter', `No replica that is up has loaded the adapter ${adapter}.`, { adapter })
    try {
      return Float32Array.from(await replica.score(request, signal))
    } catch (error) {
      if (signal?.aborted) throw new InstarError('aborted', 'The request was aborted.', {}, { cause: signal.reason })
      throw error instanceof EngineFault ? asScoreError(error) : error
    }
  }

  /** Throws `not_available` for an engine that takes token ids: it runs the policy model, which has no embeddings. */
  async embed(
    bodyFor: (served: string) => Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
    hold?: Hold,
  ): Promise<Uint8Array> {
    if (this.protocol.ids)
      throw new InstarError(
        'not_available',
        `The engine ${this.protocol.kind} has no embeddings; only openai+ engines have them.`,
      )
    const replica = this.replicas.find((one) => one.up())
    if (!replica) throw new InstarError('engine_lost', this.lost() ?? 'No engine answers.')
    return replica.embed(bodyFor, signal, hold)
  }

  close(): Promise<void> {
    for (const replica of this.replicas) replica.close()
    return this.grammars.close()
  }

  /** Replicas call this when their state has changed. */
  changed(): void {
    this.description = null
    this.fleet.changed()
  }

  private capacity(): number {
    return this.replicas.reduce((sum, { info }) => sum + (info?.concurrent ?? DEFAULT_CONCURRENT), 0)
  }
}
