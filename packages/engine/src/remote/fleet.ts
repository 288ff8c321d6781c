/** The replicas of one engine: in which order a request tries them, and requests that are repeated until one succeeds. */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import { orAborted } from '../or-aborted.ts'
import type { GenerateRequest } from '../port.ts'
import type { EngineKind } from '../protocols/kinds.ts'
import { routeOf } from '../protocols/routing.ts'
import { Attempts } from './attempts.ts'
import type { StoredAdapter } from './loaded-adapters.ts'
import type { Replica } from './replica.ts'

export type RetryPolicy = {
  /** How long a request waits while no replica is up. */
  waitMs: number
  /** Number of attempts on each replica before the first token. */
  rounds: number
  /** Delay before the second round; each later one is four times as long. */
  roundMs: number
}

/** `call` runs on a replica that has the adapter. */
type Call<T> = (replica: Replica) => Promise<T>

export class Fleet {
  readonly replicas: readonly Replica[]
  /** The adapters to load on every replica, by sha256. */
  readonly adapters = new Map<string, StoredAdapter>()
  private readonly kind: EngineKind
  private readonly retry: RetryPolicy
  /** Called when a replica has changed its state. */
  private readonly changeListeners = new Set<() => void>()

  constructor(kind: EngineKind, replicas: readonly Replica[], retry: RetryPolicy) {
    this.kind = kind
    this.replicas = replicas
    this.retry = retry
  }

  up(): Replica[] {
    return this.replicas.filter((replica) => replica.up())
  }

  /** The reason why no request can be answered; null while one can. */
  lost(): string | null {
    if (this.replicas.some((replica) => replica.up())) return null
    return `No engine answers: ${this.replicas.map(({ problem }) => problem).join('; ')}.`
  }

  changed(): void {
    for (const listener of this.changeListeners) listener()
  }

  /**
   * The rounds of one request. `attempts` decides which failures end it; the caller runs it on the replicas that `next` resolves
   * with. `next` rejects after the last round.
   */
  rounds(
    request: Pick<GenerateRequest, 'adapter' | 'session' | 'constraint'>,
    signal?: AbortSignal,
  ): { attempts: Attempts; next: () => Promise<Replica[]> } {
    const { rounds, roundMs, waitMs } = this.retry
    const until = performance.now() + waitMs
    const attempts = new Attempts(this.kind, request, roundMs, signal)
    let round = 0
    const next = async (): Promise<Replica[]> => {
      if (round >= rounds || !(await attempts.wait(round))) throw attempts.error()
      round += 1
      return this.route(request, until, signal)
    }
    return { attempts, next }
  }

  /** Runs `call` on one replica after another until it succeeds. */
  async attempt<T>(
    request: Pick<GenerateRequest, 'adapter' | 'session'>,
    call: Call<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const { attempts, next } = this.rounds(request, signal)
    for (;;)
      for (const replica of await next())
        try {
          return await this.callWith(replica, request.adapter, call, signal)
        } catch (error) {
          attempts.failed(error, replica, false)
        }
  }

  /** Runs `call` on this replica, once more if it has lost the adapter. */
  async onOne<T>(replica: Replica, adapter: string | null, call: Call<T>, signal?: AbortSignal): Promise<T> {
    const attempts = new Attempts(this.kind, { adapter }, this.retry.roundMs, signal)
    for (let round = 0; round < 2 && (await attempts.wait(round)); round += 1)
      try {
        return await this.callWith(replica, adapter, call, signal)
      } catch (error) {
        attempts.failed(error, replica, false)
      }
    throw attempts.error()
  }

  /** Runs `call` on each replica that is up; fails if it fails on one of them, or if none is up. */
  async onEach<T>(adapter: string | null, call: Call<T>, signal?: AbortSignal): Promise<T[]> {
    const results: T[] = []
    for (const replica of this.up()) results.push(await this.onOne(replica, adapter, call, signal))
    if (results.length === 0) throw new InstarError('engine_lost', this.lost() ?? 'No engine answers.')
    return results
  }

  /** Loads the adapter on a replica that was restarted or has unloaded it. The load goes on if `signal` is aborted. */
  async ensureAdapter(replica: Replica, adapter: string | null, signal: AbortSignal | undefined): Promise<void> {
    if (adapter === null || replica.hasAdapter(adapter)) return
    const stored = this.adapters.get(adapter)
    if (!stored) throw new InstarError('unknown_adapter', `The adapter ${adapter} is not loaded.`, { adapter })
    await orAborted(replica.load(stored), signal)
  }

  private async callWith<T>(
    replica: Replica,
    adapter: string | null,
    call: Call<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    signal?.throwIfAborted()
    await this.ensureAdapter(replica, adapter, signal)
    return call(replica)
  }

  /**
   * The replicas that are up, in the order to try them: those with the adapter first. While none is up, waits until the
   * time `until` (of `performance.now()`); then the list is empty.
   */
  private async route(
    { adapter, session }: Pick<GenerateRequest, 'adapter' | 'session'>,
    until: number,
    signal: AbortSignal | undefined,
  ): Promise<Replica[]> {
    for (;;) {
      const up = this.up()
      if (this.replicas.length === 1 && up.length === 1) return up
      const remainingMs = until - performance.now()
      if (up.length > 0 || remainingMs <= 0 || signal?.aborted)
        return routeOf(up, session ?? null).sort(
          (a, b) => Number(b.hasAdapter(adapter)) - Number(a.hasAdapter(adapter)),
        )
      const { promise: change, resolve: onChange } = Promise.withResolvers<void>()
      this.changeListeners.add(onChange)
      await Promise.race([
        change,
        delay(remainingMs, undefined, signal ? { signal, ref: false } : { ref: false }).catch(() => undefined),
      ])
      this.changeListeners.delete(onChange)
    }
  }
}
