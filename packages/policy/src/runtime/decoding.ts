/** The decode step. One program serves prefill and generation, for any numbers of rows, new and cached positions. */
import type * as tf from '../tensors.ts'
import * as tfjs from '../tensors.ts'
import { MASKED, attendCached, decode, head, ropeTable } from '../model.ts'
import { causalMask } from '../pretraining.ts'
import { frozenParameters, packAdapters, packedDelta, packedInputs, packedMasks } from '../parameters.ts'
import type { Lora } from '../checkpoints/peft.ts'
import type { ModelConfig, PackedTensor } from '../weights.ts'
import type { Backend, Compiled, Feeds, InputSpec, Program, TensorData } from './backend.ts'
import type { KvCache } from './cache.ts'

/** `ids` [B·T], rows padded on the right; `counts`: valid ids per row, default T for each. */
export type DecodeRequest = {
  ids: Int32Array
  T: number
  cache: KvCache
  /** Adapter slot of each row; null is the base model. */
  rowSlots: readonly (number | null)[]
  counts?: readonly number[]
  /**
   * Positions whose logits are returned: the last valid one of each row (default), all valid ones, or indices in [B·T].
   */
  logits?: 'last' | 'all' | readonly number[]
  /** False: the cache is not updated, since no further step follows. Default true. */
  keep?: boolean
}

/** `logits` [rows, vocabulary]: one row per requested position, in the order of the request. */
export type DecodeResult = { logits: Float32Array; rows: number; vocabulary: number }

type Packed = (name: string) => PackedTensor | null

function program(config: ModelConfig, constants: ReadonlyMap<string, TensorData>, packed: Packed): Program {
  const { kvHeads: G, headDim: d, layers } = config
  const inputs: InputSpec[] = [
    { name: 'ids', dtype: 'int32', shape: ['B', 'T'] },
    { name: 'cos', dtype: 'float32', shape: ['B', 1, 'T', d] },
    { name: 'sin', dtype: 'float32', shape: ['B', 1, 'T', d] },
    { name: 'causal', dtype: 'float32', shape: ['T', 'T'] },
    { name: 'cached', dtype: 'float32', shape: ['B', 'C'] },
    { name: 'rows', dtype: 'int32', shape: ['N'] },
    ...packedInputs(config),
  ]
  for (let layer = 0; layer < layers; layer++) {
    inputs.push(
      { name: `keys.${layer}`, dtype: 'float32', shape: ['B', G, d, 'C'] },
      { name: `values.${layer}`, dtype: 'float32', shape: ['B', G, 'C', d] },
    )
  }
  return {
    name: 'decode',
    inputs,
    constants,
    packed,
    build(input, constant) {
      const ids = input('ids')
      const [B, T] = ids.shape as [number, number]
      const C = input('cached').shape[1] ?? 0
      const parameters = frozenParameters(config, constant, packedDelta(input, B, T))
      const sequence = { config, B, T, cos: input('cos'), sin: input('sin') }
      const out: Record<string, tf.Tensor> = {}
      const attend = attendCached(
        sequence,
        C,
        (layer) => ({ keys_BGdC: input(`keys.${layer}`), values_BGCd: input(`values.${layer}`) }),
        input('cached'),
        input('causal'),
        (layer, k, v) => {
          out[`k.${layer}`] = k
          out[`v.${layer}`] = v
        },
      )
      const hidden_ND = decode(ids, sequence, parameters, attend)
      const selected_ND = tfjs.gather(hidden_ND, input('rows') as tf.Tensor1D) as tf.Tensor2D
      return { logits: head(selected_ND, config, parameters), ...out }
    },
  }
}

/** Decodes batches whose rows may use different adapters. */
export class Decoder {
  private readonly config: ModelConfig
  private readonly compiled: Compiled
  private readonly table: { cos: Float32Array; sin: Float32Array }
  private readonly slots: (Lora | null)[] = []
  private packed: Feeds | null = null
  private readonly causal = new Map<number, TensorData>()
  /** By number of rows: zeros for one masked position, in place of an empty cache. */
  private readonly emptyPast = new Map<number, Float32Array>()

  private constructor(config: ModelConfig, compiled: Compiled) {
    this.config = config
    this.compiled = compiled
    this.table = ropeTable(config, config.contextLength)
  }

  /** `packed`: constants in 4-bit blocks (backend.ts). */
  static async create(
    backend: Backend,
    config: ModelConfig,
    constants: ReadonlyMap<string, TensorData>,
    packed: Packed = () => null,
  ): Promise<Decoder> {
    return new Decoder(config, await backend.compile(program(config, constants, packed)))
  }

  /** Sets or clears (null) the adapter of a slot for later steps. */
  setAdapterSlot(slot: number, adapter: Lora | null): void {
    while (this.slots.length <= slot) this.slots.push(null)
    this.slots[slot] = adapter
    this.packed = null
  }

  /** Throws `RangeError` if sizes do not match or a row exceeds the context length. */
  async step(request: DecodeRequest): Promise<DecodeResult> {
    const { config, table } = this
    const { ids, T, cache, rowSlots } = request
    const B = cache.rows
    const d = config.headDim
    const counts = request.counts ?? new Array<number>(B).fill(T)
    if (ids.length !== B * T || rowSlots.length !== B || counts.length !== B)
      throw new RangeError(
        `a step of ${B} rows and ${T} positions got ${ids.length} ids, ${rowSlots.length} slots, ${counts.length} counts`,
      )
    const needed = Math.max(...cache.lengths.map((length, row) => length + (counts[row] ?? T)))
    if (needed > config.contextLength)
      throw new RangeError(`a row of ${needed} positions exceeds the context length of ${config.contextLength}`)
    if (request.keep !== false) cache.reserve(needed)
    // With empty caches, attention reads one masked position instead of the whole capacity.
    const empty = cache.lengths.every((length) => length === 0)
    const C = empty ? 1 : cache.capacity
    const cos = new Float32Array(B * T * d)
    const sin = new Float32Array(B * T * d)
    const cached = new Float32Array(B * C).fill(MASKED)
    const requested = request.logits ?? 'last'
    const rows: number[] = typeof requested === 'string' ? [] : [...requested]
    for (let row = 0; row < B; row++) {
      const start = cache.lengths[row] ?? 0
      const positions = Math.min(T, config.contextLength - start)
      cos.set(table.cos.subarray(start * d, (start + positions) * d), row * T * d)
      sin.set(table.sin.subarray(start * d, (start + positions) * d), row * T * d)
      cached.fill(0, row * C, row * C + start)
      const count = counts[row] ?? T
      if (requested === 'all') for (let t = 0; t < count; t++) rows.push(row * T + t)
      else if (requested === 'last') rows.push(row * T + count - 1)
    }
    let causal = this.causal.get(T)
    if (!causal) {
      causal = causalMask(T)
      if (T <= 64) this.causal.set(T, causal)
    }
    const feeds: Feeds = {
      ids: { shape: [B, T], data: ids },
      cos: { shape: [B, 1, T, d], data: cos },
      sin: { shape: [B, 1, T, d], data: sin },
      causal,
      cached: { shape: [B, C], data: cached },
      rows: { shape: [rows.length], data: Int32Array.from(rows) },
      ...(this.packed ??= packAdapters(config, this.slots)),
      ...packedMasks(this.slots, rowSlots),
    }
    for (let layer = 0; layer < config.layers; layer++) {
      const { keys, values } = empty ? this.emptyLayer(B) : cache.layer(layer)
      feeds[`keys.${layer}`] = { shape: [B, config.kvHeads, d, C], data: keys }
      feeds[`values.${layer}`] = { shape: [B, config.kvHeads, C, d], data: values }
    }
    if (request.keep === false) {
      const { logits } = await this.compiled.run(feeds, ['logits'])
      if (!logits) throw new Error('the decode program returned no logits')
      return { logits: logits.data, rows: rows.length, vocabulary: config.vocabulary }
    }
    const out = await this.compiled.run(feeds)
    for (let layer = 0; layer < config.layers; layer++) {
      const k = out[`k.${layer}`]
      const v = out[`v.${layer}`]
      if (!k || !v) throw new Error(`the decode program returned no keys or values of layer ${layer}`)
      cache.write(layer, k.data, v.data, T, counts)
    }
    cache.advance(T, counts)
    if (!out.logits) throw new Error('the decode program returned no logits')
    return { logits: out.logits.data, rows: rows.length, vocabulary: config.vocabulary }
  }

  private emptyLayer(B: number): { keys: Float32Array; values: Float32Array } {
    let zeros = this.emptyPast.get(B)
    if (!zeros) this.emptyPast.set(B, (zeros = new Float32Array(B * this.config.kvHeads * this.config.headDim)))
    return { keys: zeros, values: zeros }
  }

  dispose(): Promise<void> {
    return this.compiled.dispose()
  }
}
