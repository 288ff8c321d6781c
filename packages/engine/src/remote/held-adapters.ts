/** The adapters that one replica holds, by sha256, with the name of each at the engine. */
import { InstarError } from '@instar/events'
import type { Model } from '../port.ts'
import { adapterFault } from '../protocols/exactness.ts'
import { adapterName, type Protocol } from '../protocols/wire.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { checkScores, type ReplicaInfo } from './probe.ts'

/** An adapter on disk. `neutral`: its log-probs are those of the base model. */
export type StoredAdapter = { sha256: string; folder: string; neutral: boolean }

export class HeldAdapters {
  private readonly http: EngineHttp
  private readonly protocol: Protocol
  private readonly model: Model
  private readonly names = new Map<string, string>()
  private readonly loading = new Map<string, Promise<void>>()

  constructor({ http, protocol, model }: { http: EngineHttp; protocol: Protocol; model: Model }) {
    this.http = http
    this.protocol = protocol
    this.model = model
  }

  has(sha256: string): boolean {
    return this.names.has(sha256)
  }

  /** Its name at the engine; null for the base model and for an adapter that is not held. */
  nameOf(sha256: string | null): string | null {
    return sha256 === null ? null : (this.names.get(sha256) ?? null)
  }

  /**
   * Resolves when the engine has the adapter and its log-probs differ from those of the base model. One load runs at a
   * time for each adapter. Throws `adapter_refused`, or EngineFault where a later attempt may succeed.
   */
  async load(adapter: StoredAdapter, info: ReplicaInfo): Promise<void> {
    const { sha256 } = adapter
    if (this.names.has(sha256)) return
    const running =
      this.loading.get(sha256) ?? this.loadAndCheck(adapter, info).finally(() => this.loading.delete(sha256))
    this.loading.set(sha256, running)
    return running
  }

  /** Forgets the adapter; `reachable`: the engine is told to unload it. */
  async unload(sha256: string, reachable: boolean): Promise<void> {
    const name = this.names.get(sha256)
    this.names.delete(sha256)
    if (name !== undefined && this.protocol.adapter && reachable)
      await this.protocol.adapter.unload(this.http.client(), name)
  }

  /** The engine does not have it any more. */
  forget(sha256: string): void {
    this.names.delete(sha256)
  }

  /** The engine was started again, without adapters. */
  clear(): void {
    this.names.clear()
  }

  private async loadAndCheck({ sha256, folder, neutral }: StoredAdapter, info: ReplicaInfo): Promise<void> {
    const { http, protocol, model } = this
    const refuse = (why: string, cause?: unknown): InstarError =>
      new InstarError(
        'adapter_refused',
        `${http.url} does not take adapter ${sha256.slice(0, 12)}: ${why}.`,
        { adapter: sha256 },
        { cause },
      )
    if (!protocol.adapter || info.adapterFault !== null) throw refuse(info.adapterFault ?? 'it takes none')
    const name = await protocol.adapter
      .load(http.client(), { name: adapterName(sha256), sha256, folder })
      .catch((error: unknown) => {
        throw error instanceof EngineFault ? error : refuse((error as Error).message, error)
      })
    const fault =
      neutral || !info.base
        ? null
        : adapterFault(info.base.first, info.base.again, await checkScores(http, protocol, model, info.model, name))
    if (fault !== null) {
      await protocol.adapter.unload(http.client(), name)
      throw refuse(fault)
    }
    this.names.set(sha256, name)
  }
}
