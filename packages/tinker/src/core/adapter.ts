/**
 * An adapter as the server stores it, made one that every serving engine reads alike. Rank and target modules come from
 * the tensors: SkyRL 0.4.0 writes `target_modules: null`, with which PEFT loads a part of them without a word.
 */
import { isJsonObject, parseJsonObject, type JsonObject } from '@instar/events/json'
import { contentSha } from '@instar/events/ids'
import type { ArchiveFile, FetchedAdapter } from '../port.ts'
import { badAdapter, readTensors, tensorsDigest, writeTensors, type Tensor } from './safetensors.ts'

export const WEIGHTS_FILE = 'adapter_model.safetensors'
export const CONFIG_FILE = 'adapter_config.json'

const PREFIX = 'base_model.model.'
/** `model.layers.0.self_attn.q_proj` and A or B; PEFT puts the adapter's name behind the matrix while it is loaded. */
const LORA = /^(?:base_model\.model\.)?(.+)\.lora_(A|B)(?:\.default)?(?:\.weight)?$/
const RANK_MAX = 1024

/** Options that change the computation, and that serving engines do not all know. */
const REFUSED: readonly (readonly [string, (value: unknown) => boolean])[] = [
  ['use_dora', (value) => value === true],
  ['use_rslora', (value) => value === true],
  ['fan_in_fan_out', (value) => value === true],
  ['bias', (value) => value !== undefined && value !== null && value !== 'none'],
  ['modules_to_save', (value) => Array.isArray(value) && value.length > 0],
  ['rank_pattern', (value) => isJsonObject(value) && Object.keys(value).length > 0],
  ['alpha_pattern', (value) => isJsonObject(value) && Object.keys(value).length > 0],
]

type Pair = { A?: Tensor; B?: Tensor }

/** The matrices by module. Each tensor must be one of them. */
const modulesOf = (tensors: ReadonlyMap<string, Tensor>): Map<string, Pair> => {
  const modules = new Map<string, Pair>()
  for (const [name, tensor] of tensors) {
    const [, module, matrix] = LORA.exec(name) ?? []
    if (module === undefined || tensor.shape.length !== 2)
      throw badAdapter(`the tensor ${JSON.stringify(name.slice(0, 200))} is no matrix of a LoRA`)
    const pair = modules.get(module) ?? {}
    const key = matrix === 'A' ? 'A' : 'B'
    if (pair[key]) throw badAdapter(`${module} has two matrices ${key}`)
    pair[key] = tensor
    modules.set(module, pair)
  }
  return modules
}

/** The rank, which all matrices must share. */
const rankOf = (modules: ReadonlyMap<string, Pair>): number => {
  let rank: number | null = null
  for (const [module, { A, B }] of modules) {
    if (!A || !B) throw badAdapter(`${module} has no matrix ${A ? 'B' : 'A'}`)
    const [inner, outer] = [A.shape[0], B.shape[1]]
    if (inner === undefined || inner !== outer || (rank !== null && inner !== rank) || inner < 1 || inner > RANK_MAX)
      throw badAdapter(`${module} has matrices of rank ${inner} and ${outer}, others of ${rank ?? 'none'}`)
    rank = inner
  }
  if (rank === null) throw badAdapter('it has no matrices')
  return rank
}

const alphaOf = (config: JsonObject, rank: number): number => {
  const stated = config['r']
  if (stated !== undefined && stated !== null && stated !== rank)
    throw badAdapter(`${CONFIG_FILE} says r ${JSON.stringify(stated)?.slice(0, 40)}; the matrices have ${rank}`)
  const alpha = config['lora_alpha']
  if (typeof alpha !== 'number' || !Number.isFinite(alpha) || alpha <= 0)
    throw badAdapter(`lora_alpha in ${CONFIG_FILE} is ${JSON.stringify(alpha)?.slice(0, 40)}, no positive number`)
  return alpha
}

/** `base`: becomes `base_model_name_or_path`. Throws `bad_checkpoint`. */
export const adapterOf = (files: readonly ArchiveFile[], archiveSha256: string, base: string): FetchedAdapter => {
  const bytesOf = (wanted: string): Uint8Array => {
    const file = files.find(({ name }) => name === wanted)
    if (!file) throw badAdapter(`${wanted} is not in the archive`)
    return file.bytes
  }
  const config = parseJsonObject(Buffer.from(bytesOf(CONFIG_FILE)).toString('utf8'))
  if (!config) throw badAdapter(`${CONFIG_FILE} is not a JSON object`)
  const refused = REFUSED.find(([name, refuses]) => refuses(config[name]))
  if (refused) throw badAdapter(`${refused[0]} in ${CONFIG_FILE} is not supported`)
  const modules = modulesOf(readTensors(bytesOf(WEIGHTS_FILE)))
  const rank = rankOf(modules)
  const alpha = alphaOf(config, rank)
  const tensors = new Map<string, Tensor>()
  for (const [module, { A, B }] of modules) {
    if (A) tensors.set(`${PREFIX}${module}.lora_A.weight`, A)
    if (B) tensors.set(`${PREFIX}${module}.lora_B.weight`, B)
  }
  const targets = [...new Set([...modules.keys()].map((module) => module.split('.').at(-1) ?? module))].sort()
  const written = peftConfig({ base, rank, alpha, targets })
  return {
    weights: writeTensors(tensors, { base_model_name_or_path: base, format: 'pt', lora_alpha: String(alpha) }),
    config: written,
    rank,
    alpha,
    targets,
    tensors: tensors.size,
    archiveSha256,
    tensorsSha256: tensorsDigest(tensors),
    configSha256: contentSha(new TextEncoder().encode(JSON.stringify(written))),
  }
}

type Lora = { base: string; rank: number; alpha: number; targets: readonly string[] }

const peftConfig = ({ base, rank, alpha, targets }: Lora): Readonly<Record<string, unknown>> => ({
  base_model_name_or_path: base,
  bias: 'none',
  fan_in_fan_out: false,
  inference_mode: true,
  init_lora_weights: true,
  lora_alpha: alpha,
  lora_dropout: 0,
  modules_to_save: null,
  peft_type: 'LORA',
  r: rank,
  target_modules: targets,
  task_type: 'CAUSAL_LM',
  use_dora: false,
  use_rslora: false,
})
