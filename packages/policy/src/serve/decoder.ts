/** The interface of a model that batching needs: rows with a KV cache each, and slots for adapters. */
import type { Lora } from '../checkpoints/peft.ts'

/**
 * One row of a step. Its cache is cut to the first `keep` positions, then `ids` are appended under the
 * adapter in `slot` (null: the base). Logits of the last `logits` of these positions are returned.
 */
export type DecodeRow = { row: number; keep: number; ids: readonly number[]; slot: number | null; logits: number }

export interface Decoder {
  readonly vocabulary: number
  /** Capacity of a row's cache in positions. */
  readonly contextLength: number
  readonly rows: number
  readonly slots: number
  /** Must not be called for a slot in use by a running row. */
  setAdapter(slot: number, lora: Lora | null): Promise<void>
  /** Rows are distinct and may differ in their number of ids. Returns [logits · vocabulary] for each. */
  step(rows: readonly DecodeRow[]): Promise<Float32Array[]>
}
