/** The adapters that one replica has loaded: their names at the engine by sha256. */
import { InstarError } from '@instar/events'
import type { Model } from '../port.ts'
import { adapterFault } from '../protocols/exactness.ts'
import type { Protocol } from '../protocols/wire.ts'
import { readAdapterFolder } from './adapter-files.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { probeScores, type ReplicaInfo } from './probe.ts'

/** An adapter on disk. `neutral`: its log-probs are those of the base model. */
export type StoredAdapter = { sha256: string; folder: string; neutral: boolean }

export class LoadedAdapters {
  private readonly http: EngineHttp
  private readonly protocol: Protocol
  private readonly model: Model
  private readonly nameFor: (sha256: string) => string
  private readonly names = new Map<string, string>()
  /** Names that are being loaded. */
  private readonly requested = new Set<string>()
  private readonly loading = new Map<string, Promise<void>>()
  private readonly unloading = new Map<string, Promise<void>>()
  /** Adapters that were unloaded while they were being loaded. */
  private readonly unwanted = new Set<string>()

  /** `nameFor`: the name under which an adapter is loaded, asked before each load. */
  constructor({
    http,
    protocol,
    model,
    nameFor,
  }: {
    http: EngineHttp
    protocol: Protocol
    model: Model
    nameFor: (sha256: string) => string
  }) {
    this.nameFor = nameFor
    this.http = http
    this.protocol = protocol
    this.model = model
  }

  has(sha256: string): boolean {
    return this.names.has(sha256)
  }

  /** Loaded, or being loaded. */
  isLoadedAs(name: string): boolean {
    return this.requested.has(name) || [...this.names.values()].includes(name)
  }

  /** The adapter's name at the engine; null for the base model and for an adapter that is not loaded. */
  nameOf(sha256: string | null): string | null {
    return sha256 === null ? null : (this.names.get(sha256) ?? null)
  }

  /**
   * Resolves when the engine has loaded the adapter and its log-probs differ from those of the base model. Concurrent
   * calls for one adapter share one load. Throws `adapter_refused`, or EngineFault if a later attempt may succeed.
   */
  async load(adapter: StoredAdapter, info: ReplicaInfo): Promise<void> {
    const { sha256 } = adapter
    this.unwanted.delete(sha256)
    if (this.names.has(sha256)) return
    const load = this.loading.get(sha256) ?? this.loadInTurn(adapter, info).finally(() => this.loading.delete(sha256))
    this.loading.set(sha256, load)
    return load
  }

  /** Loads after an unload of the same adapter has ended; unloads again if the adapter is no longer wanted by then. */
  private async loadInTurn(adapter: StoredAdapter, info: ReplicaInfo): Promise<void> {
    const { sha256 } = adapter
    await this.unloading.get(sha256)?.catch(() => undefined)
    await this.loadAndCheck(adapter, info)
    if (this.unwanted.delete(sha256)) await this.unload(sha256, true)
  }

  /** Removes the adapter from this list and, if `reachable`, from the engine. */
  async unload(sha256: string, reachable: boolean): Promise<void> {
    const name = this.names.get(sha256)
    this.names.delete(sha256)
    if (name === undefined && this.loading.has(sha256)) this.unwanted.add(sha256)
    if (name === undefined || !this.protocol.adapter || !reachable) return
    const unload = this.protocol.adapter.unload(this.http.client(), name).finally(() => this.unloading.delete(sha256))
    this.unloading.set(sha256, unload)
    await unload
  }

  /** Call if the engine has unloaded the adapter itself, or another one unloads it. */
  forget(sha256: string): void {
    this.names.delete(sha256)
  }

  /** Call if the engine was restarted: it has no adapters. */
  clear(): void {
    this.names.clear()
  }

  private async loadAndCheck({ sha256, folder, neutral }: StoredAdapter, info: ReplicaInfo): Promise<void> {
    const { http, protocol, model } = this
    const refused = (reason: string, cause?: unknown): InstarError =>
      new InstarError(
        'adapter_refused',
        `${http.url} did not load the adapter ${sha256.slice(0, 12)}: ${reason}.`,
        { adapter: sha256 },
        { cause },
      )
    if (!protocol.adapter || info.adapterFault !== null) throw refused(info.adapterFault ?? 'it loads no adapters')
    const requested = this.nameFor(sha256)
    this.requested.add(requested)
    try {
      const name = await protocol.adapter
        .load(http.client(), { name: requested, sha256, folder, files: () => readAdapterFolder(folder) })
        .catch((error: unknown) => {
          throw error instanceof EngineFault ? error : refused((error as Error).message, error)
        })
      const fault =
        neutral || !info.base
          ? null
          : adapterFault(info.base.first, info.base.second, await probeScores(http, protocol, model, info.model, name))
      if (fault !== null) {
        await protocol.adapter.unload(http.client(), name)
        throw refused(fault)
      }
      this.names.set(sha256, name)
    } finally {
      this.requested.delete(requested)
    }
  }
}
