/**
 * Steps over any set of rows, on a runtime that decodes all rows of a cache together. Rows that sample one token per
 * step share one cache, which is rebuilt only when a row is added or removed; each of the other rows (in prefill, or
 * finished) has a cache of its own.
 */
import type { Lora } from '../checkpoints/peft.ts'
import type { KvCache } from '../runtime/cache.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Decoder, DecodeRow } from './decoder.ts'

export class RowCaches implements Decoder {
  readonly vocabulary: number
  readonly contextLength: number
  readonly rows: number
  readonly slots: number
  private readonly runtime: Runtime
  /** The rows of the shared cache, in its order. */
  private sharedRows: number[] = []
  private shared: KvCache
  private readonly own = new Map<number, KvCache>()

  constructor(runtime: Runtime, limits: { rows: number; slots: number }) {
    this.runtime = runtime
    this.vocabulary = runtime.config.vocabulary
    this.contextLength = runtime.config.contextLength
    this.rows = limits.rows
    this.slots = limits.slots
    this.shared = runtime.createCache()
  }

  async setAdapter(slot: number, lora: Lora | null): Promise<void> {
    this.runtime.setAdapterSlot(slot, lora)
  }

  async step(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    if (rows.every((row) => row.ids.length === 1 && row.logits === 1)) return this.decodeShared(rows)
    return this.prefill(rows)
  }

  /** Moves rows from the shared cache into caches of their own. */
  private separate(leaving: ReadonlySet<number>): void {
    const staying: number[] = []
    for (const [at, row] of this.sharedRows.entries()) {
      if (leaving.has(row)) this.own.set(row, this.shared.copy([at]))
      else staying.push(at)
    }
    if (staying.length === this.sharedRows.length) return
    this.shared.keep(staying)
    this.sharedRows = staying.map((at) => this.sharedRows[at] ?? 0)
  }

  /** One id per row, in the shared cache. */
  private async decodeShared(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    const byRow = new Map(rows.map((row) => [row.row, row]))
    this.separate(new Set(this.sharedRows.filter((row) => !byRow.has(row))))
    for (const { row } of rows) {
      if (this.sharedRows.includes(row)) continue
      this.shared.append(this.ownCache(row))
      this.sharedRows.push(row)
      this.own.delete(row)
    }
    const order = this.sharedRows.map((row) => byRow.get(row)).filter((row): row is DecodeRow => row !== undefined)
    for (const [at, { keep }] of order.entries())
      if (keep < (this.shared.lengths[at] ?? 0)) this.shared.rewind(at, keep)
    const { logits } = await this.runtime.decodeStep({
      ids: Int32Array.from(order, (row) => row.ids[0] ?? 0),
      T: 1,
      cache: this.shared,
      rowSlots: order.map((row) => row.slot),
    })
    const V = this.vocabulary
    const positions = new Map(this.sharedRows.map((row, at) => [row, at]))
    return rows.map(({ row }) => {
      const at = positions.get(row) ?? 0
      return logits.subarray(at * V, (at + 1) * V)
    })
  }

  private ownCache(row: number): KvCache {
    return this.own.get(row) ?? this.runtime.createCache(1)
  }

  /** Any number of ids per row, padded on the right to the longest. */
  private async prefill(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    this.separate(new Set(rows.map((row) => row.row)))
    const [first, ...others] = rows
    if (!first) return []
    const cache = this.ownCache(first.row)
    for (const { row } of others) cache.append(this.ownCache(row))
    // If the step fails, these rows have no cache.
    for (const { row } of rows) this.own.delete(row)
    for (const [at, { keep }] of rows.entries()) if (keep < (cache.lengths[at] ?? 0)) cache.rewind(at, keep)
    const T = Math.max(...rows.map((row) => row.ids.length))
    const ids = new Int32Array(rows.length * T)
    for (const [at, row] of rows.entries()) ids.set(row.ids, at * T)
    const counts = rows.map((row) => row.ids.length)
    const places = rows.flatMap(({ ids: { length }, logits }, at) =>
      Array.from({ length: logits }, (_, i) => at * T + length - logits + i),
    )
    // The graph requires at least one position, even if no logits are requested.
    const { logits } = await this.runtime.decodeStep({
      ids,
      T,
      cache,
      rowSlots: rows.map((row) => row.slot),
      counts,
      logits: places.length > 0 ? places : [0],
    })
    for (const [at, { row }] of rows.entries()) this.own.set(row, rows.length === 1 ? cache : cache.copy([at]))
    const V = this.vocabulary
    let next = 0
    return rows.map((row) => {
      const from = next
      next += row.logits
      return logits.subarray(from * V, next * V)
    })
  }
}
