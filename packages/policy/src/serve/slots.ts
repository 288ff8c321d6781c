/**
 * The adapters in memory and their assignment to the decoder's slots. An adapter is released when it is unloaded and no
 * request uses it. Of the slots that no row uses, the least recently used one is reassigned first.
 */
import type { Lora } from '../checkpoints/peft.ts'
import type { Decoder } from './decoder.ts'

type LoadedAdapter = { lora: Lora; loaded: boolean; requests: number }
type Slot = { sha256: string | null; rows: number; used: number }

export class AdapterSlots {
  private readonly decoder: Pick<Decoder, 'slots' | 'setAdapter'>
  private readonly adapters = new Map<string, LoadedAdapter>()
  private readonly slots: Slot[]
  private clock = 0

  constructor(decoder: Pick<Decoder, 'slots' | 'setAdapter'>) {
    this.decoder = decoder
    this.slots = Array.from({ length: decoder.slots }, () => ({ sha256: null, rows: 0, used: 0 }))
  }

  load(sha256: string, lora: Lora): void {
    const adapter = this.adapters.get(sha256)
    if (adapter) adapter.loaded = true
    else this.adapters.set(sha256, { lora, loaded: true, requests: 0 })
  }

  /** New requests may no longer use the adapter; running ones still do. */
  unload(sha256: string): void {
    const adapter = this.adapters.get(sha256)
    if (!adapter) return
    adapter.loaded = false
    this.releaseUnused(sha256, adapter)
  }

  /** Whether new requests may use the adapter. */
  has(sha256: string): boolean {
    return this.adapters.get(sha256)?.loaded ?? false
  }

  /** Counts a request that uses the adapter, until `leave`. */
  join(sha256: string): void {
    const adapter = this.adapters.get(sha256)
    if (adapter) adapter.requests++
  }

  leave(sha256: string): void {
    const adapter = this.adapters.get(sha256)
    if (!adapter) return
    adapter.requests--
    this.releaseUnused(sha256, adapter)
  }

  private releaseUnused(sha256: string, adapter: LoadedAdapter): void {
    if (!adapter.loaded && adapter.requests === 0) this.adapters.delete(sha256)
  }

  /**
   * Assigns a row to the slot of the adapter, which is installed if necessary, until `release`. Null while rows use all
   * slots for other adapters.
   */
  async take(sha256: string): Promise<number | null> {
    const adapter = this.adapters.get(sha256)
    if (!adapter) throw new Error(`take() of adapter ${sha256} without join()`)
    let best = this.slots.findIndex((slot) => slot.sha256 === sha256)
    if (best < 0) {
      for (const [i, slot] of this.slots.entries()) {
        if (slot.rows === 0 && (best < 0 || slot.used < (this.slots[best]?.used ?? 0))) best = i
      }
    }
    const slot = this.slots[best]
    if (!slot) return null
    if (slot.sha256 !== sha256) {
      slot.sha256 = null
      await this.decoder.setAdapter(best, adapter.lora)
      slot.sha256 = sha256
    }
    slot.rows++
    slot.used = ++this.clock
    return best
  }

  release(index: number): void {
    const slot = this.slots[index]
    if (slot) slot.rows--
  }
}
