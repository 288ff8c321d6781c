/** The `ServingEngine` over one or more replicas behind HTTP: adapters on all of them, each request on one. */
import { InstarError } from '@instar/events'
import type {
  Adapter,
  Capabilities,
  Constraint,
  GeneratedPiece,
  GenerateRequest,
  Load,
  Model,
  ScoreRequest,
  ServingEngine,
} from '../port.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { isBusy } from '../protocols/faults.ts'
import { routeOf } from '../protocols/routing.ts'
import type { Protocol } from '../protocols/wire.ts'
import type { AdapterFiles } from './adapter-files.ts'
import { Attempts } from './attempts.ts'
import { Grammars } from './grammars.ts'
import type { StoredAdapter } from './held-adapters.ts'
import { EngineFault } from './http.ts'
import type { Replica } from './replica.ts'

export type RetryPolicy = {
  /** How long a request waits while no replica answers. */
  waitMs: number
  /** How often each replica is tried before the first token. */
  rounds: number
  roundMs: number
}

/** Concurrent requests of a server that does not report its limit. */
const CONCURRENT_DEFAULT = 256

const asScoreError = (fault: EngineFault): InstarError =>
  isBusy(fault.status)
    ? new InstarError(
        'overloaded',
        `The engine takes no more requests: ${fault.message}.`,
        fault.retryAfterMs === null ? {} : { retryAfterMs: fault.retryAfterMs },
      )
    : new InstarError('engine_lost', `No log-probs came: ${fault.message}.`, {}, { cause: fault })

export class RemoteEngine implements ServingEngine {
  private readonly protocol: Protocol
  private readonly model: Model
  private readonly replicas: readonly Replica[]
  private readonly files: AdapterFiles
  private readonly isNeutral: (adapter: Adapter) => boolean
  private readonly patience: RetryPolicy
  private readonly accepts: NonNullable<Capabilities['accepts']>
  private readonly say: (line: string) => void
  private readonly grammars: Grammars
  readonly wanted = new Map<string, StoredAdapter>()
  private readonly waiters = new Set<() => void>()
  /** Cleared when a replica changes. */
  private cached: Capabilities | null = null

  constructor(parts: {
    protocol: Protocol
    model: Model
    replicas: readonly Replica[]
    files: AdapterFiles
    isNeutral: (adapter: Adapter) => boolean
    patience: RetryPolicy
    accepts?: Capabilities['accepts']
    say: (line: string) => void
  }) {
    this.protocol = parts.protocol
    this.model = parts.model
    this.replicas = parts.replicas
    this.files = parts.files
    this.isNeutral = parts.isNeutral
    this.patience = parts.patience
    this.accepts = parts.accepts ?? []
    this.say = parts.say
    this.grammars = new Grammars(parts.model)
  }

  capabilities(): Capabilities {
    return (this.cached ??= this.describe())
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
    if (this.replicas.some((replica) => replica.up())) return null
    return `No engine answers: ${this.replicas.map(({ problem }) => problem).join('; ')}.`
  }

  /** Loads the adapter on every replica that is up. Fails only if all of them fail; a replica that refuses it gets no request for it. */
  async load(adapter: Adapter): Promise<void> {
    const lost = this.lost()
    if (lost !== null) throw new InstarError('engine_lost', lost)
    const stored = { sha256: adapter.sha256, folder: await this.files.write(adapter), neutral: this.isNeutral(adapter) }
    const outcomes = await Promise.allSettled(
      this.replicas.filter((replica) => replica.up()).map((replica) => replica.load(stored)),
    )
    const faults = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []))
    if (faults.length === outcomes.length)
      throw faults[0] instanceof InstarError
        ? faults[0]
        : new InstarError('engine_lost', faults[0]?.message ?? 'no engine answers')
    for (const fault of faults) this.say(fault.message)
    this.wanted.set(adapter.sha256, stored)
    await this.files.prune(new Set(this.wanted.keys()))
  }

  async unload(sha256: string): Promise<void> {
    this.wanted.delete(sha256)
    const outcomes = await Promise.allSettled(this.replicas.map((replica) => replica.unload(sha256)))
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') this.say(`an adapter was not unloaded: ${(outcome.reason as Error).message}`)
  }

  /** Servers are sent the grammar that the embedded engine follows, so both accept the same constraints. */
  async check(constraint: Constraint): Promise<void> {
    const loose = this.replicas.some((replica) => replica.up() && replica.info?.grammar === false)
    if (loose)
      throw new InstarError(
        'bad_request',
        `The engine ${this.protocol.kind} does not hold its answers to a grammar, so that it cannot be told what an answer must be.`,
        { field: constraint.json?.field ?? 'tool_choice' },
      )
    await this.grammars.of(constraint)
  }

  async *generate(request: GenerateRequest, signal?: AbortSignal): AsyncGenerator<GeneratedPiece> {
    const { rounds, roundMs, waitMs } = this.patience
    const grammar = request.constraint ? await this.grammars.of(request.constraint) : null
    const until = performance.now() + waitMs
    const attempts = new Attempts(this.protocol.kind, request, roundMs, signal)
    for (let round = 0; round < rounds && (await attempts.wait(round)); round += 1) {
      for (const replica of await this.route(request, until, signal)) {
        let began = false
        try {
          signal?.throwIfAborted()
          if (!replica.holds(request.adapter)) await this.ensureAdapter(replica, request.adapter!)
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
    throw attempts.error()
  }

  async score(request: ScoreRequest, signal?: AbortSignal): Promise<Float32Array> {
    const { adapter } = request
    if (request.temperature !== 1)
      throw new InstarError(
        'not_available',
        'An engine behind HTTP gives log-probs of given tokens at temperature 1 only.',
      )
    const replica = this.replicas.find((one) => one.up() && one.holds(adapter))
    if (!replica) throw new InstarError('unknown_adapter', `No engine holds ${adapter}.`, { adapter })
    try {
      return Float32Array.from(await replica.score(request, signal))
    } catch (error) {
      if (signal?.aborted) throw new InstarError('aborted', 'The request was given up.', {}, { cause: signal.reason })
      throw error instanceof EngineFault ? asScoreError(error) : error
    }
  }

  /** Throws `not_available` for an engine that takes token ids: it runs the policy, which has no embeddings. */
  async embed(bodyFor: (served: string) => Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<unknown> {
    if (this.protocol.ids)
      throw new InstarError(
        'not_available',
        `The engine ${this.protocol.kind} is asked for answers alone; it has no embeddings here.`,
      )
    const replica = this.replicas.find((one) => one.up())
    if (!replica) throw new InstarError('engine_lost', this.lost() ?? 'No engine answers.')
    return replica.embed(bodyFor, signal)
  }

  close(): Promise<void> {
    for (const replica of this.replicas) replica.close()
    return this.grammars.close()
  }

  /** Called by a replica when its state has changed. */
  changed(): void {
    this.cached = null
    for (const wake of this.waiters) wake()
  }

  private capacity(): number {
    return this.replicas.reduce((sum, { info }) => sum + (info?.concurrent ?? CONCURRENT_DEFAULT), 0)
  }

  /** The replicas that are up in the order to try them, those with the adapter first. Waits until `until` while none is up. */
  private async route(
    { adapter, session }: GenerateRequest,
    until: number,
    signal: AbortSignal | undefined,
  ): Promise<Replica[]> {
    for (;;) {
      const up = this.replicas.filter((replica) => replica.up())
      if (this.replicas.length === 1 && up.length === 1) return up
      const left = until - performance.now()
      if (up.length > 0 || left <= 0 || signal?.aborted)
        return routeOf(up, session ?? null).sort((a, b) => Number(b.holds(adapter)) - Number(a.holds(adapter)))
      const { promise: woken, resolve: wake } = Promise.withResolvers<void>()
      this.waiters.add(wake)
      await Promise.race([
        woken,
        delay(left, undefined, signal ? { signal, ref: false } : { ref: false }).catch(() => undefined),
      ])
      this.waiters.delete(wake)
    }
  }

  /** For a replica that was restarted, or that unloaded the adapter. */
  private async ensureAdapter(replica: Replica, sha256: string): Promise<void> {
    const stored = this.wanted.get(sha256)
    if (!stored) throw new InstarError('unknown_adapter', `No adapter ${sha256} is loaded.`, { adapter: sha256 })
    await replica.load(stored)
  }
}
