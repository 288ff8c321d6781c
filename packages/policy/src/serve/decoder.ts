/** The interface of the model that the batcher uses: rows with a KV cache each, and adapter slots. */
import type { Lora } from '../checkpoints/peft.ts'

/**
 * One row of a step. Its cache is truncated to the first `keep` positions; then `ids` are appended, computed with the
 * adapter in `slot` (null: the base model). `logits`: the number of last positions whose logits are returned.
 */
export type DecodeRow = { row: number; keep: number; ids: readonly number[]; slot: number | null; logits: number }

export interface Decoder {
  readonly vocabulary: number
  /** Capacity of a row's cache in positions. */
  readonly contextLength: number
  readonly rows: number
  readonly slots: number
  /** Must not be called for a slot that a running row uses. */
  setAdapter(slot: number, lora: Lora | null): Promise<void>
  /**
   * Rows must be distinct; their numbers of ids may differ. Returns for each row the logits [row.logits, vocabulary].
   */
  step(rows: readonly DecodeRow[]): Promise<Float32Array[]>
}
