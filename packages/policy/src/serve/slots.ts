/**
 * Adapters in memory and in the decoder's slots. An adapter lives while it is loaded or a request is on it;
 * a slot that a row works on is never taken; the longest unused one is taken first.
 */
import type { Lora } from '../checkpoints/peft.ts'
import type { Decoder } from './decoder.ts'

type Held = { lora: Lora; loaded: boolean; requests: number }
type Slot = { sha256: string | null; rows: number; used: number }

export class AdapterSlots {
  private readonly decoder: Pick<Decoder, 'slots' | 'setAdapter'>
  private readonly held = new Map<string, Held>()
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

  /** Requests that are already in go on with it. */
  unload(sha256: string): void {
    const held = this.held.get(sha256)
    if (!held) return
    held.loaded = false
    this.forget(sha256, held)
  }

  /** Whether a new request may name it. */
  has(sha256: string): boolean {
    return this.held.get(sha256)?.loaded ?? false
  }

  /** A request is on this adapter from now until `leave`. */
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

  private forget(sha256: string, held: Held): void {
    if (!held.loaded && held.requests === 0) this.held.delete(sha256)
  }

  /** The slot that holds the adapter, one more row on it; null while every slot is in use by others. */
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
