/**
 * The loaded versions. Follows the head of the version line: reads its adapter from the log, loads it into the engine,
 * then serves it: here a publication and a rollback take effect. A request keeps the version that it started with.
 */
import { InstarError, type WeightLine } from '@instar/events'
import { createPump, getBlob, type EventLog, type Pump } from '@instar/log'
import type { Adapter, ServingEngine } from '@instar/engine/port'
import { ancestors, checkHeld, servedVersion, surplus, type Served } from './core/pool-plan.ts'

type PoolPorts = {
  log: EventLog
  engine: ServingEngine
  line: () => WeightLine
  toAdapter: (weights: Uint8Array) => Adapter
  now: () => number
  keep: number
  /** After this time in milliseconds an adapter that is still being loaded is a problem. */
  slowLoadMs: number
}

export type Lease = Served & { release(): void }

const FIRST_RETRY_MS = 250
const LONGEST_RETRY_MS = 5000

export class Pool {
  private readonly ports: PoolPorts
  private readonly pump: Pump
  /** Loaded adapters → when a request last took one. */
  private readonly loaded = new Map<string, number>()
  private readonly loading = new Map<string, Promise<void>>()
  /** Adapters that must not be unloaded, with their number of users. */
  private readonly pins = new Map<string, number>()
  private readonly waiters = new Set<() => void>()
  private current: Served | null = null
  private fault: { version: number; message: string } | null = null
  private retry: NodeJS.Timeout | null = null
  private retryMs = FIRST_RETRY_MS
  /** Resolved when the adapter that is being loaded is no longer the head's. */
  private awaited: { head: number; adapter: string | null; moved: PromiseWithResolvers<'moved'> } | null = null
  private started = false
  private stopped = false

  constructor(ports: PoolPorts) {
    this.ports = ports
    this.pump = createPump(
      () => this.followHead(),
      (error) => {
        this.fault = { version: ports.line().head, message: error.message }
      },
    )
  }

  /** Called when the line has changed. Nothing is served before `ready` was called. */
  wake(): void {
    if (!this.started || this.stopped) return
    const { awaited } = this
    const { head, versions } = this.ports.line()
    if (awaited && head !== awaited.head && versions.get(head)?.adapter !== awaited.adapter)
      awaited.moved.resolve('moved')
    this.pump.wake()
  }

  serving(): Served | null {
    return this.current
  }

  /** Why the head is not served; null if it is. */
  problem(): { version: number; message: string } | null {
    return this.fault
  }

  loadedAdapters(): string[] {
    return [...this.loaded.keys()]
  }

  /** Resolves true when `version` is served, false after `ms`. */
  async serves(version: number, ms: number): Promise<boolean> {
    const until = Promise.withResolvers<boolean>()
    const timer = setTimeout(() => until.resolve(false), ms)
    const check = (): void => {
      if (this.current?.version === version) until.resolve(true)
    }
    this.waiters.add(check)
    check()
    try {
      return await until.promise
    } finally {
      clearTimeout(timer)
      this.waiters.delete(check)
    }
  }

  /** Call after the whole line was read. Resolves when the first version is served. */
  async ready(): Promise<void> {
    this.started = true
    this.wake()
    await this.pump.idle()
    if (this.current) return
    const first = Promise.withResolvers<void>()
    const check = (): void => {
      if (this.current) first.resolve()
    }
    this.waiters.add(check)
    await first.promise
    this.waiters.delete(check)
  }

  /** Resolves when the head that the log names as of the call is served, or its adapter could not be loaded. */
  async servesHead(tail: { weightsCaughtUp(): Promise<void> }): Promise<void> {
    await tail.weightsCaughtUp()
    await this.ready()
  }

  /** `version` null: the current head. Throws `unknown_version`, `overloaded`, or the error that prevents loading its adapter. */
  async lease(version: number | null): Promise<Lease> {
    const served = this.served(version)
    if (!served)
      throw version === null
        ? new InstarError('engine_lost', 'No version is served yet.')
        : new InstarError('unknown_version', `There is no version ${version}.`, { field: 'model', version })
    return this.hold(served)
  }

  /** As `lease`, without waiting; null where that is not possible. */
  leaseNow(version: number | null): Lease | null {
    const served = this.served(version)
    return served && (served.adapter === null || this.loaded.has(served.adapter)) ? this.pinned(served) : null
  }

  /**
   * The lease of an adapter that is no version of the line: of a branch, or rejected by the gate. `at`: a time at or before
   * that of its blob. Its version is −1. Throws `missing_blob`, or the error that prevents loading it.
   */
  leaseAdapter(adapter: string, at: number): Promise<Lease> {
    return this.hold({ version: -1, adapter }, at)
  }

  private served(version: number | null): Served | null | undefined {
    return version === null ? this.current : servedVersion(this.ports.line(), version)
  }

  private async hold(served: Served, at?: number): Promise<Lease> {
    const lease = this.pinned(served)
    try {
      if (served.adapter !== null && !this.loaded.has(served.adapter)) await this.load(served, at)
      return lease
    } catch (error) {
      lease.release()
      throw error
    }
  }

  /** Keeps an adapter that is loaded, or about to be, until the release. Throws `overloaded`. */
  private pinned(served: Served): Lease {
    const { adapter } = served
    if (adapter === null) return { ...served, release: () => undefined }
    checkHeld(adapter, this.current?.adapter ?? null, this.pins, this.loading)
    this.pin(adapter, 1)
    if (this.loaded.has(adapter)) this.loaded.set(adapter, this.ports.now())
    let held = true
    return {
      ...served,
      release: () => {
        if (!held) return
        held = false
        this.pin(adapter, -1)
        if (this.loaded.size > this.ports.keep) this.wake()
      },
    }
  }

  async stop(): Promise<void> {
    this.stopped = true
    this.awaited?.moved.resolve('moved')
    if (this.retry) clearTimeout(this.retry)
    await this.pump.idle()
  }

  private pin(adapter: string, by: number): void {
    const count = (this.pins.get(adapter) ?? 0) + by
    if (count > 0) this.pins.set(adapter, count)
    else this.pins.delete(adapter)
  }

  private async followHead(): Promise<void> {
    while (!this.stopped) {
      const line = this.ports.line()
      const head = servedVersion(line, line.head)
      if (!head || (this.current?.version === head.version && this.current.adapter === head.adapter)) break
      const outcome = await this.tryServe(head)
      if (outcome !== 'failed') continue
      // Until a first version is served, an ancestor is served while the head's adapter is missing.
      for (const version of this.current ? [] : ancestors(line)) {
        const ancestor = servedVersion(line, version)
        if (ancestor && (await this.tryServe(ancestor)) !== 'failed') break
      }
      this.retryLater()
      break
    }
    const line = this.ports.line()
    if (this.current?.version === line.head) {
      this.fault = null
      this.retryMs = FIRST_RETRY_MS
    }
    this.unloadSurplus()
  }

  /** `moved`: the head has moved meanwhile. The load goes on, and nothing waits for it. */
  private async tryServe(served: Served): Promise<'served' | 'failed' | 'moved'> {
    const { adapter } = served
    if (adapter !== null) this.pin(adapter, 1)
    try {
      if (adapter !== null && !this.loaded.has(adapter) && (await this.loadWhileHead(served)) === 'moved')
        return 'moved'
      // A publication or a rollback takes effect: each request from here on gets this version.
      this.current = served
      for (const check of this.waiters) check()
      return 'served'
    } catch (error) {
      this.fault ??= { version: served.version, message: error instanceof Error ? error.message : String(error) }
      return 'failed'
    } finally {
      if (adapter !== null) this.pin(adapter, -1)
    }
  }

  private async loadWhileHead(served: Served): Promise<'loaded' | 'moved'> {
    const moved = Promise.withResolvers<'moved'>()
    this.awaited = { head: this.ports.line().head, adapter: served.adapter, moved }
    const ms = this.ports.slowLoadMs
    const slow = { version: served.version, message: `The engine has not loaded its adapter within ${ms} ms.` }
    const timer = setTimeout(() => {
      this.fault ??= slow
    }, ms)
    try {
      // The load of a head that was left behind ends on its own: its adapter is then surplus.
      const load = this.load(served).then(() => 'loaded' as const)
      load.then(
        () => this.wake(),
        () => undefined,
      )
      return await Promise.race([load, moved.promise])
    } finally {
      clearTimeout(timer)
      this.awaited = null
      if (this.fault === slow) this.fault = null
    }
  }

  private load({ version, adapter }: Served, at?: number): Promise<void> {
    const name = adapter!
    const running = this.loading.get(name) ?? this.fetch(version, name, at).finally(() => this.loading.delete(name))
    this.loading.set(name, running)
    return running
  }

  private async fetch(
    version: number,
    name: string,
    at = this.ports.line().versions.get(version)?.blobsAt ?? 0,
  ): Promise<void> {
    const adapter = this.ports.toAdapter(await getBlob(this.ports.log, name, at))
    if (adapter.sha256 !== name)
      throw new InstarError('bad_checkpoint', `version ${version}: the adapter is ${adapter.sha256}, not ${name}`, {
        version,
      })
    await this.ports.engine.load(adapter)
    this.loaded.set(name, this.ports.now())
  }

  private retryLater(): void {
    if (this.retry || this.stopped) return
    this.retry = setTimeout(() => {
      this.retry = null
      this.wake()
    }, this.retryMs)
    this.retryMs = Math.min(this.retryMs * 2, LONGEST_RETRY_MS)
  }

  private unloadSurplus(): void {
    const line = this.ports.line()
    const wanted = new Set(
      [this.current?.adapter, line.versions.get(line.head)?.adapter].filter(
        (adapter): adapter is string => typeof adapter === 'string',
      ),
    )
    const held = [...this.loaded].map(([adapter, usedAt]) => ({ adapter, usedAt, inUse: this.pins.get(adapter) ?? 0 }))
    for (const adapter of surplus(held, this.ports.keep, wanted)) {
      this.loaded.delete(adapter)
      // Not awaited: a server that does not answer must not hold the head.
      this.ports.engine.unload(adapter).catch((error: unknown) => {
        this.fault ??= { version: line.head, message: (error as Error).message }
      })
    }
  }
}
