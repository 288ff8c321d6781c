/**
 * Adapters in memory and in the decoder's slots. An adapter is freed when it is unloaded and no request uses it. A slot
 * in use by a row is never reassigned; the least recently used one is reassigned first.
 */
import type { Lora } from '../checkpoints/peft.ts'
import type { Decoder } from './decoder.ts'

type LoadedAdapter = { lora: Lora; loaded: boolean; requests: number }
type Slot = { sha256: string | null; rows: number; used: number }

export class AdapterSlots {
  private readonly decoder: Pick<Decoder, 'slots' | 'setAdapter'>
  private readonly held = new Map<string, LoadedAdapter>()
  private readonly slots: Slot[]
  private clock = 0

  constructor(decoder: Pick<Decoder, 'slots' | 'setAdapter'>) {
    this.decoder = decoder
    this.slots = Array.from({ length: decoder.slots }, () => ({ sha256: null, rows: 0, used: 0 }))
  }

  load(sha256: string, lora: Lora): void {
    const held = this.held.get(sha256)
    if (held) held.loaded = true
    else this.held.set(sha256, { lora, loaded: true, requests: 0 })
  }

  /** Running requests keep it. */
  unload(sha256: string): void {
    const held = this.held.get(sha256)
    if (!held) return
    held.loaded = false
    this.forget(sha256, held)
  }

  /** Whether new requests may use it. */
  has(sha256: string): boolean {
    return this.held.get(sha256)?.loaded ?? false
  }

  /** Marks the adapter as used by a request until `leave`. */
  join(sha256: string): void {
    const held = this.held.get(sha256)
    if (held) held.requests++
  }

  leave(sha256: string): void {
    const held = this.held.get(sha256)
    if (!held) return
    held.requests--
    this.forget(sha256, held)
  }

  private forget(sha256: string, held: LoadedAdapter): void {
    if (!held.loaded && held.requests === 0) this.held.delete(sha256)
  }

  /** The adapter's slot, for one more row; null while all slots are used by other adapters. */
  async take(sha256: string): Promise<number | null> {
    const held = this.held.get(sha256)
    if (!held) throw new Error(`adapter ${sha256} was never joined`)
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
      await this.decoder.setAdapter(best, held.lora)
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
