/**
 * LoRA adapters in the format of PEFT: adapter_config.json, and adapter_model.safetensors with the tensors
 * `base_model.model.<module>.lora_A.weight` [r, in] and `.lora_B.weight` [out, r]; y += (alpha / r) · B(A x). Equal
 * numbers give equal bytes; an adapter is identified by the sha256 of its weights file.
 */
import { createHash } from 'node:crypto'
import { InstarError } from '@instar/events/errors'
import type { Adapter } from '@instar/engine/port'
import {
  PROJECTIONS,
  projectionPath,
  projectionShape,
  type ModelConfig,
  type Projection,
  type WeightTensor,
} from '../weights.ts'
import { isJsonObject } from '@instar/events/json'
import { headerLength, parseHeader, readSafetensors, writeSafetensors, type Tensor } from './safetensors.ts'

/** `modules`: by name such as `model.layers.0.self_attn.q_proj`; `a` is [rank, in], `b` is [out, rank]. */
export type Lora = { rank: number; alpha: number; modules: ReadonlyMap<string, { a: WeightTensor; b: WeightTensor }> }

const PREFIX = 'base_model.model.'
const MAX_RANK = 1024

function bad(problem: string, details: Record<string, unknown> = {}): InstarError {
  return new InstarError('bad_checkpoint', `adapter: ${problem}`, details)
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The files of an adapter. `base` becomes `base_model_name_or_path`. */
export function writeAdapter(lora: Lora, base: string): Adapter {
  const tensors = new Map<string, Tensor>()
  for (const [module, { a, b }] of lora.modules) {
    tensors.set(`${PREFIX}${module}.lora_A.weight`, { dtype: 'F32', ...a })
    tensors.set(`${PREFIX}${module}.lora_B.weight`, { dtype: 'F32', ...b })
  }
  const weights = writeSafetensors(
    tensors,
    new Map([
      ['base_model_name_or_path', base],
      ['format', 'pt'],
      ['lora_alpha', String(lora.alpha)],
    ]),
  )
  return adapterFromWeights(weights)
}

/**
 * The adapter of a weights file, which is all that the log stores. Rank and target modules are those of the tensors;
 * alpha and base are in the metadata that `writeAdapter` writes. Throws `bad_checkpoint`.
 */
export function adapterFromWeights(weights: Uint8Array): Adapter {
  const { metadata, tensors } = parseHeader(
    weights.subarray(8, 8 + headerLength(weights, weights.length, 'adapter_model.safetensors')),
    weights.length,
    'adapter_model.safetensors',
  )
  const alpha = Number(metadata.get('lora_alpha') ?? Number.NaN)
  const first = [...tensors].find(([name]) => name.endsWith('.lora_A.weight'))
  if (!Number.isFinite(alpha)) throw bad('metadata lora_alpha of adapter_model.safetensors is missing or not a number')
  if (!first) throw bad('contains no LoRA matrices')
  const targets = [...new Set([...tensors.keys()].map((name) => name.split('.').at(-3) ?? ''))].sort()
  const config = {
    base_model_name_or_path: metadata.get('base_model_name_or_path') ?? '',
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    lora_alpha: alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: first[1].shape[0] ?? 0,
    target_modules: targets,
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: false,
  }
  return { sha256: sha256(weights), weights, config: new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`) }
}

/** Options of PEFT that change the computation and are not supported, and the values that enable them. */
const REFUSED: [string, (value: unknown) => boolean][] = [
  ['use_dora', (value) => value === true],
  ['use_rslora', (value) => value === true],
  ['fan_in_fan_out', (value) => value === true],
  ['bias', (value) => value !== undefined && value !== 'none'],
  ['modules_to_save', (value) => Array.isArray(value) && value.length > 0],
  ['rank_pattern', (value) => isJsonObject(value) && Object.keys(value).length > 0],
  ['alpha_pattern', (value) => isJsonObject(value) && Object.keys(value).length > 0],
]

function readConfig(bytes: Uint8Array): { rank: number; alpha: number } {
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new InstarError('bad_checkpoint', 'adapter: adapter_config.json is not JSON', {}, { cause: error })
  }
  if (!isJsonObject(json) || json['peft_type'] !== 'LORA') throw bad('peft_type in adapter_config.json is not LORA')
  for (const [name, refused] of REFUSED) if (refused(json[name])) throw bad(`${name} is not supported`, { field: name })
  const rank = json['r']
  const alpha = json['lora_alpha']
  if (typeof rank !== 'number' || !Number.isSafeInteger(rank) || rank < 1 || rank > MAX_RANK)
    throw bad(`r in adapter_config.json is not an integer from 1 to ${MAX_RANK}`)
  if (typeof alpha !== 'number' || !Number.isFinite(alpha))
    throw bad('lora_alpha in adapter_config.json is not a number')
  return { rank, alpha }
}

function matrix(tensors: Map<string, Tensor>, name: string, shape: [number, number]): WeightTensor {
  const tensor = tensors.get(name)
  if (!tensor) throw bad(`tensor ${JSON.stringify(name)} is missing`, { tensor: name })
  const { data } = tensor
  if (!(data instanceof Float32Array))
    throw bad(`tensor ${JSON.stringify(name)} is ${tensor.dtype}, not a float of 16 or 32 bits`, { tensor: name })
  if (tensor.shape.length !== 2 || tensor.shape[0] !== shape[0] || tensor.shape[1] !== shape[1])
    throw bad(
      `tensor ${JSON.stringify(name)} has shape [${tensor.shape.join(', ')}]; the model requires [${shape.join(', ')}]`,
      { tensor: name },
    )
  if (!data.every(Number.isFinite))
    throw bad(`tensor ${JSON.stringify(name)} contains a value that is not finite`, { tensor: name })
  return { shape, data }
}

/**
 * The matrices of an adapter. Throws `bad_checkpoint` if its sha256, a shape or a value is wrong, or if a tensor
 * belongs to no projection of the model. `modules` contains only projections that the adapter has matrices for.
 */
export function readAdapter(adapter: Adapter, model: ModelConfig): Lora {
  const found = sha256(adapter.weights)
  if (found !== adapter.sha256)
    throw bad(`the weights of ${adapter.sha256} have sha256 ${found}`, { expected: adapter.sha256, found })
  const { rank, alpha } = readConfig(adapter.config)
  const tensors = readSafetensors(adapter.weights, 'adapter_model.safetensors')
  const modules = new Map<string, { a: WeightTensor; b: WeightTensor }>()
  for (let layer = 0; layer < model.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const module = moduleName(layer, projection)
      const [a, b] = [`${PREFIX}${module}.lora_A.weight`, `${PREFIX}${module}.lora_B.weight`]
      if (!tensors.has(a) && !tensors.has(b)) continue
      const [out, inner] = projectionShape(model, projection)
      modules.set(module, { a: matrix(tensors, a, [rank, inner]), b: matrix(tensors, b, [out, rank]) })
      tensors.delete(a)
      tensors.delete(b)
    }
  }
  const unused = tensors.keys().next()
  if (!unused.done)
    throw bad(`tensor ${JSON.stringify(unused.value.slice(0, 200))} belongs to no projection of the model`, {
      tensor: unused.value,
    })
  if (modules.size === 0) throw bad('contains no LoRA matrices')
  return { rank, alpha, modules }
}

/**
 * The relative distance ‖B − B'‖ / ‖B'‖ between the B matrices of `weights` and `reference`, which are zero before
 * training. Infinity if their shapes differ.
 */
export function adapterDistance(weights: Uint8Array, reference: Uint8Array): number {
  const [matrices, references] = [weights, reference].map(
    (bytes) =>
      new Map(
        [...readSafetensors(bytes, 'adapter_model.safetensors')].filter(([name]) => name.endsWith('.lora_B.weight')),
      ),
  )
  let difference = 0
  let norm = 0
  if (matrices?.size !== references?.size) return Infinity
  for (const [name, { data }] of references ?? []) {
    const other = matrices?.get(name)?.data
    if (!(data instanceof Float32Array) || !(other instanceof Float32Array) || other.length !== data.length)
      return Infinity
    for (let at = 0; at < data.length; at++) {
      difference += ((other[at] as number) - (data[at] as number)) ** 2
      norm += (data[at] as number) ** 2
    }
  }
  return difference === 0 ? 0 : Math.sqrt(difference / norm)
}

/** Whether all B matrices are zero, as in the first adapter of a line, so that the model equals the base model. */
export function isNeutral({ weights }: Adapter): boolean {
  return [...readSafetensors(weights, 'adapter_model.safetensors')].every(
    ([name, { data }]) => !name.endsWith('.lora_B.weight') || data.every((value) => Number(value) === 0),
  )
}

export function moduleName(layer: number, projection: Projection): string {
  return `model.layers.${layer}.${projectionPath(projection)}`
}
