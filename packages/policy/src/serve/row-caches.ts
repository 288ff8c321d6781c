/**
 * The runtime decodes all rows of one cache together; this class lets any set of rows be in a step. Decoding rows share
 * one cache, which is rebuilt only when a row joins or leaves; every other row (prefilling, or finished) has its own.
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
  /** Rows in `together`, in its order. */
  private side: number[] = []
  private together: KvCache
  private readonly apart = new Map<number, KvCache>()

  constructor(runtime: Runtime, limits: { rows: number; slots: number }) {
    this.runtime = runtime
    this.vocabulary = runtime.config.vocabulary
    this.contextLength = runtime.config.contextLength
    this.rows = limits.rows
    this.slots = limits.slots
    this.together = runtime.createCache()
  }

  async setAdapter(slot: number, lora: Lora | null): Promise<void> {
    this.runtime.setAdapterSlot(slot, lora)
  }

  async step(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    if (rows.every((row) => row.ids.length === 1 && row.logits === 1)) return this.draw(rows)
    return this.read(rows)
  }

  /** Moves rows from `together` into caches of their own. */
  private part(leaving: ReadonlySet<number>): void {
    const staying: number[] = []
    for (const [at, row] of this.side.entries()) {
      if (leaving.has(row)) this.apart.set(row, this.together.copy([at]))
      else staying.push(at)
    }
    if (staying.length === this.side.length) return
    this.together.keep(staying)
    this.side = staying.map((at) => this.side[at] ?? 0)
  }

  /** One id per row. */
  private async draw(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    const wanted = new Map(rows.map((row) => [row.row, row]))
    this.part(new Set(this.side.filter((row) => !wanted.has(row))))
    for (const { row } of rows) {
      if (this.side.includes(row)) continue
      this.together.append(this.own(row))
      this.side.push(row)
      this.apart.delete(row)
    }
    const order = this.side.map((row) => wanted.get(row)).filter((row): row is DecodeRow => row !== undefined)
    for (const [at, { keep }] of order.entries())
      if (keep < (this.together.lengths[at] ?? 0)) this.together.rewind(at, keep)
    const { logits } = await this.runtime.decodeStep({
      ids: Int32Array.from(order, (row) => row.ids[0] ?? 0),
      T: 1,
      cache: this.together,
      rowSlots: order.map((row) => row.slot),
    })
    const V = this.vocabulary
    const place = new Map(this.side.map((row, at) => [row, at]))
    return rows.map(({ row }) => {
      const at = place.get(row) ?? 0
      return logits.subarray(at * V, (at + 1) * V)
    })
  }

  private own(row: number): KvCache {
    return this.apart.get(row) ?? this.runtime.createCache(1)
  }

  /** Any number of ids per row, padded on the right to the longest. */
  private async read(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    this.part(new Set(rows.map((row) => row.row)))
    const [first, ...others] = rows
    if (!first) return []
    const cache = this.own(first.row)
    for (const { row } of others) cache.append(this.own(row))
    // The state of these rows is undefined until the step is done.
    for (const { row } of rows) this.apart.delete(row)
    for (const [at, { keep }] of rows.entries()) if (keep < (cache.lengths[at] ?? 0)) cache.rewind(at, keep)
    const T = Math.max(...rows.map((row) => row.ids.length))
    const ids = new Int32Array(rows.length * T)
    for (const [at, row] of rows.entries()) ids.set(row.ids, at * T)
    const counts = rows.map((row) => row.ids.length)
    const places = rows.flatMap(({ ids: { length }, logits }, at) =>
      Array.from({ length: logits }, (_, i) => at * T + length - logits + i),
    )
    // The graph needs at least one position; its output is not used.
    const { logits } = await this.runtime.decodeStep({
      ids,
      T,
      cache,
      rowSlots: rows.map((row) => row.slot),
      counts,
      logits: places.length > 0 ? places : [0],
    })
    for (const [at, { row }] of rows.entries()) this.apart.set(row, rows.length === 1 ? cache : cache.copy([at]))
    const V = this.vocabulary
    let next = 0
    return rows.map((row) => {
      const from = next
      next += row.logits
      return logits.subarray(from * V, next * V)
    })
  }
}
