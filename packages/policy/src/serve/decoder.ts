/** What batching needs of a model: rows with caches of their own, and slots that hold adapters. */
import type { Lora } from '../checkpoints/peft.ts'

/**
 * One row of a step. Its cache is cut to the first `keep` positions, then `ids` are appended under the
 * adapter in `slot` (null: the base). Logits of the last `logits` of these positions are returned.
 */
export type DecodeRow = { row: number; keep: number; ids: readonly number[]; slot: number | null; logits: number }

export interface Decoder {
  readonly vocabulary: number
  /** Positions that the cache of a row can hold. */
  readonly contextLength: number
  readonly rows: number
  readonly slots: number
  /** Must not be called for a slot that a row in work is on. */
  setAdapter(slot: number, lora: Lora | null): Promise<void>
  /** Rows are distinct; each may bring another number of ids. Returns [logits · vocabulary] for each. */
  step(rows: readonly DecodeRow[]): Promise<Float32Array[]>
}
