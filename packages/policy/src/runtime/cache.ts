/**
 * The KV cache of a batch, in plain arrays that a runtime reads without copying. Rows are added and removed between
 * steps. Each row has a length of its own; positions beyond it are masked, so a row can be truncated (`rewind`) to
 * continue from a shared prefix.
 */
import type { ModelConfig } from '../weights.ts'

/** Capacities are multiples of this many positions. */
const BLOCK = 64
const roundUp = (positions: number): number => Math.max(1, Math.ceil(positions / BLOCK)) * BLOCK

/** Shapes per layer: keys [rows, G, d, C], values [rows, G, C, d]; G key-value heads, d head size, C capacity. */
export class KvCache {
  readonly config: ModelConfig
  /** Filled positions of each row. */
  readonly lengths: number[] = []
  /** Positions that each row has room for. */
  capacity: number
  /** Rows that the arrays have room for. */
  private rowCapacity: number
  /** Empty until the first write or read. */
  private keys: Float32Array[] = []
  private values: Float32Array[] = []
  private views: { keys: Float32Array[]; values: Float32Array[] } | null = null

  /** `rows` empty rows; `positions`: expected positions per row, the initial capacity. */
  constructor(config: ModelConfig, rows = 0, positions = 0) {
    this.config = config
    this.capacity = roundUp(positions)
    this.rowCapacity = Math.max(1, rows)
    for (let row = 0; row < rows; row++) this.lengths.push(0)
  }

  get rows(): number {
    return this.lengths.length
  }

  /** Bytes of the arrays. */
  get bytes(): number {
    return [...this.keys, ...this.values].reduce((sum, data) => sum + data.byteLength, 0)
  }

  private rowSize(capacity: number): number {
    return this.config.kvHeads * this.config.headDim * capacity
  }

  private allocate(rows: number, capacity: number): Float32Array[] {
    return Array.from({ length: this.config.layers }, () => new Float32Array(rows * this.rowSize(capacity)))
  }

  private ensure(): void {
    if (this.keys.length > 0) return
    this.keys = this.allocate(this.rowCapacity, this.capacity)
    this.values = this.allocate(this.rowCapacity, this.capacity)
  }

  /** The arrays of one layer, limited to the present rows. The array objects change only with rows or capacity. */
  layer(layer: number): { keys: Float32Array; values: Float32Array } {
    if (!this.views) {
      this.ensure()
      const size = this.rows * this.rowSize(this.capacity)
      this.views = {
        keys: this.keys.map((data) => data.subarray(0, size)),
        values: this.values.map((data) => data.subarray(0, size)),
      }
    }
    return { keys: this.views.keys[layer] as Float32Array, values: this.views.values[layer] as Float32Array }
  }

  /** Copies one row between arrays whose capacities may differ. */
  private static copyRow(
    from: KvCache,
    row: number,
    keys: Float32Array[],
    values: Float32Array[],
    to: number,
    capacity: number,
  ): void {
    const { layers, kvHeads: G, headDim: d } = from.config
    const length = from.lengths[row] ?? 0
    if (length === 0) return
    for (let layer = 0; layer < layers; layer++) {
      const sourceK = from.keys[layer] as Float32Array
      const sourceV = from.values[layer] as Float32Array
      const targetK = keys[layer] as Float32Array
      const targetV = values[layer] as Float32Array
      for (let g = 0; g < G; g++) {
        const a = (row * G + g) * d * from.capacity
        const b = (to * G + g) * d * capacity
        for (let i = 0; i < d; i++)
          targetK.set(sourceK.subarray(a + i * from.capacity, a + i * from.capacity + length), b + i * capacity)
        targetV.set(sourceV.subarray(a, a + length * d), b)
      }
    }
  }

  /** Replaces all rows by `source`, in new arrays. */
  private rebuild(source: readonly { cache: KvCache; row: number }[], rowCapacity: number, capacity: number): void {
    const lengths = source.map(({ cache, row }) => cache.lengths[row] ?? 0)
    const filled = lengths.some((length) => length > 0)
    const keys = filled ? this.allocate(rowCapacity, capacity) : []
    const values = filled ? this.allocate(rowCapacity, capacity) : []
    source.forEach(({ cache, row }, to) => KvCache.copyRow(cache, row, keys, values, to, capacity))
    this.keys = keys
    this.values = values
    this.lengths.splice(0, this.lengths.length, ...lengths)
    this.rowCapacity = rowCapacity
    this.capacity = capacity
    this.views = null
  }

  private all(): { cache: KvCache; row: number }[] {
    return this.lengths.map((_, row) => ({ cache: this, row }))
  }

  /** Ensures a capacity of at least `positions` per row. */
  reserve(positions: number): void {
    if (positions > this.capacity) this.rebuild(this.all(), this.rowCapacity, roundUp(positions))
  }

  /** Appends copies of the rows of `other`. */
  append(other: KvCache): void {
    const total = this.rows + other.rows
    const capacity = Math.max(this.capacity, roundUp(Math.max(0, ...other.lengths)))
    if (total > this.rowCapacity || capacity > this.capacity) {
      const rowCapacity =
        total > this.rowCapacity ? Math.max(total, Math.min(this.rowCapacity * 2, total + 4)) : this.rowCapacity
      this.rebuild([...this.all(), ...other.lengths.map((_, row) => ({ cache: other, row }))], rowCapacity, capacity)
      return
    }
    this.ensure()
    for (let row = 0; row < other.rows; row++) {
      KvCache.copyRow(other, row, this.keys, this.values, this.rows, this.capacity)
      this.lengths.push(other.lengths[row] ?? 0)
    }
    this.views = null
  }

  /**
   * Keeps the given rows, in the given order, and removes the others; a row must not occur twice. Rows are moved in
   * place if none moves to a higher index: to remove row 2 of 5, `[0, 1, 4, 3]` moves one row, `[0, 1, 3, 4]` two.
   */
  keep(rows: readonly number[]): void {
    const longest = Math.max(0, ...rows.map((row) => this.lengths[row] ?? 0))
    const shrunk = roundUp(longest) * 2 <= this.capacity ? roundUp(longest) : this.capacity
    if (shrunk < this.capacity || rows.some((row, at) => row < at)) {
      this.rebuild(
        rows.map((row) => ({ cache: this, row })),
        Math.max(1, shrunk < this.capacity ? rows.length : this.rowCapacity),
        shrunk,
      )
      return
    }
    const size = this.rowSize(this.capacity)
    rows.forEach((row, at) => {
      if (row === at) return
      for (const data of [...this.keys, ...this.values]) data.copyWithin(at * size, row * size, (row + 1) * size)
      this.lengths[at] = this.lengths[row] ?? 0
    })
    this.lengths.length = rows.length
    this.views = null
  }

  /** A new cache with copies of the given rows; a row may occur more than once. */
  copy(rows: readonly number[]): KvCache {
    const out = new KvCache(this.config, 0, 0)
    out.rebuild(
      rows.map((row) => ({ cache: this, row })),
      Math.max(1, rows.length),
      roundUp(Math.max(0, ...rows.map((row) => this.lengths[row] ?? 0))),
    )
    return out
  }

  /** Truncates a row to its first `length` positions. Throws `RangeError` if it has fewer. */
  rewind(row: number, length: number): void {
    if (length < 0 || length > (this.lengths[row] ?? 0))
      throw new RangeError(`row ${row} has ${this.lengths[row] ?? 0} positions and cannot be rewound to ${length}`)
    this.lengths[row] = length
  }

  /**
   * Writes the first `counts[row]` of T new positions of each row after its filled positions, for one layer; `k` and
   * `v` are [rows, G, T, d]. `advance` must follow after all layers.
   */
  write(layer: number, k: Float32Array, v: Float32Array, T: number, counts: readonly number[]): void {
    const { kvHeads: G, headDim: d } = this.config
    this.ensure()
    const C = this.capacity
    const keys = this.keys[layer] as Float32Array
    const values = this.values[layer] as Float32Array
    for (let row = 0; row < this.rows; row++) {
      const start = this.lengths[row] ?? 0
      const count = counts[row] ?? T
      for (let g = 0; g < G; g++) {
        const source = (row * G + g) * T * d
        const target = (row * G + g) * C * d
        for (let t = 0; t < count; t++)
          for (let i = 0; i < d; i++) keys[target + i * C + start + t] = k[source + t * d + i] as number
        values.set(v.subarray(source, source + count * d), target + start * d)
      }
    }
  }

  /** Adds the positions that `write` wrote in every layer to the lengths of the rows. */
  advance(T: number, counts: readonly number[]): void {
    for (let row = 0; row < this.rows; row++) this.lengths[row] = (this.lengths[row] ?? 0) + (counts[row] ?? T)
  }
}
