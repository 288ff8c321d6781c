/**
 * An adapter that was trained elsewhere, as PEFT saves it: a folder with adapter_config.json and adapter_model.safetensors.
 * Read strictly: an option that changes the computation and is not ours, a missing or unknown tensor, a shape of another
 * model and a value that is not finite are errors, since PEFT and serving engines pass over some of them without a word.
 * https://huggingface.co/docs/peft/developer_guides/checkpoint
 */
import { statSync } from 'node:fs'
import path from 'node:path'
import type { Adapter } from '@instar/engine/port'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { readRegularFile } from '@instar/events/regular-file'
import { badCheckpoint } from './bad-checkpoint.ts'
import { openCheckpoint } from './folder.ts'
import { adapterFromWeights, readAdapter, sha256 } from './peft.ts'
import { headerLength, parseHeader, readSafetensors, writeSafetensors } from './safetensors.ts'

const CONFIG = 'adapter_config.json'
const WEIGHTS = 'adapter_model.safetensors'
const MAX_CONFIG_BYTES = 1 << 20
/** The size of a record's field. */
const MAX_WEIGHT_BYTES = 2 ** 31 - 1

/** `adapter.weights` has the folder's tensors, unchanged. `tensors`: their digest (`tensorsDigest`). */
export type ReadFolder = {
  adapter: Adapter
  rank: number
  alpha: number
  targets: string[]
  tensors: string
  tensorCount: number
  /** `base_model_name_or_path`; '': not stated. */
  baseModel: string
  /** The name of the folder. */
  source: string
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (Array.isArray(value) && value.length === 0) ||
  (isJsonObject(value) && Object.keys(value).length === 0)

/** Options of PEFT 0.18 that change the computation beyond B(A x); others are refused where the tensors are read. */
const REFUSED = [
  'layer_replication',
  'lora_bias',
  'trainable_token_indices',
  'target_parameters',
  'alora_invocation_tokens',
  'use_qalora',
  'use_bdlora',
  'arrow_config',
  'corda_config',
] as const

/** Initialisations that also change the base's weights, so that the adapter fits no other base. */
const CHANGES_BASE = /^(pissa|olora|loftq|corda|lora_ga)/i

const readBytes = (file: string, most: number): Buffer => {
  try {
    return readRegularFile(file, most)
  } catch (error) {
    throw badCheckpoint(file, `cannot be read: ${(error as Error).message}`, {}, error)
  }
}

const readJson = (file: string): { config: JsonObject; bytes: Uint8Array } => {
  if (!statSync(file, { throwIfNoEntry: false }))
    throw badCheckpoint(file, 'is missing: this is not a folder that PEFT saved')
  const bytes = readBytes(file, MAX_CONFIG_BYTES)
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    if (isJsonObject(value)) return { config: value, bytes }
  } catch (error) {
    throw badCheckpoint(file, 'is not JSON', {}, error)
  }
  throw badCheckpoint(file, 'is not a JSON object')
}

const readWeights = (folder: string): Uint8Array => {
  const file = path.join(folder, WEIGHTS)
  if (!statSync(file, { throwIfNoEntry: false })) {
    const pickled = statSync(path.join(folder, 'adapter_model.bin'), { throwIfNoEntry: false }) !== undefined
    throw badCheckpoint(
      file,
      pickled ? 'is missing; adapter_model.bin is not read: save it with safe_serialization=True' : 'is missing',
    )
  }
  return readBytes(file, MAX_WEIGHT_BYTES)
}

const checkConfig = (config: JsonObject, file: string): void => {
  for (const field of REFUSED)
    if (!isEmpty(config[field])) throw badCheckpoint(file, `${field} is not supported`, { field })
  const init = config['init_lora_weights']
  if (typeof init === 'string' && CHANGES_BASE.test(init))
    throw badCheckpoint(
      file,
      `init_lora_weights ${init} changed the base's weights; convert the adapter with PEFT first`,
      {
        field: 'init_lora_weights',
      },
    )
}

/** Every module that the config lists by name must be among the tensors, and no other one. */
const checkTargets = (config: JsonObject, targets: readonly string[], file: string): void => {
  const stated = config['target_modules']
  if (!Array.isArray(stated)) return
  const names = stated.map((name) => String(name).split('.').at(-1) ?? '')
  const lacking = names.find((name) => !targets.includes(name)) ?? targets.find((name) => !names.includes(name))
  if (lacking !== undefined)
    throw badCheckpoint(file, `target_modules and the tensors differ in ${lacking.slice(0, 100)}`, {
      field: 'target_modules',
    })
}

/** Hex sha256 of the lines `NAME DTYPE [SHAPE] SHA256\n` of the tensors, sorted by name; independent of the file around. */
export const tensorsDigest = (weights: Uint8Array): { digest: string; count: number } => {
  const length = headerLength(weights, weights.length, WEIGHTS)
  const { tensors } = parseHeader(weights.subarray(8, 8 + length), weights.length, WEIGHTS)
  const lines = [...tensors]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([name, { dtype, shape, begin, end }]) =>
        `${name} ${dtype} [${shape.join(',')}] ${sha256(weights.subarray(begin, end))}\n`,
    )
  return { digest: sha256(new TextEncoder().encode(lines.join(''))), count: lines.length }
}

/**
 * The adapter of a folder for the model in `model` (a folder or a GGUF file), whose sha256 is `base`. Throws
 * `bad_checkpoint`.
 */
export const readPeftFolder = (folder: string, { model, base }: { model: string; base: string }): ReadFolder => {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw badCheckpoint(folder, 'is not a folder that PEFT saved')
  const file = path.join(folder, CONFIG)
  const { config, bytes: configBytes } = readJson(file)
  checkConfig(config, file)
  const stated = config['base_model_name_or_path']
  const baseModel = typeof stated === 'string' ? stated : ''
  if (/^[0-9a-f]{64}$/.test(baseModel) && baseModel !== base)
    throw badCheckpoint(file, `the adapter is for the base model ${baseModel}; this one is ${base}`, {
      expected: baseModel,
      found: base,
    })
  const bytes = readWeights(folder)
  const tensors = readSafetensors(bytes, path.join(folder, WEIGHTS))
  const own = { sha256: sha256(bytes), weights: bytes, config: configBytes }
  const { rank, alpha } = readAdapter(own, openCheckpoint(model).config)
  const weights = writeSafetensors(
    tensors,
    new Map([
      ['base_model_name_or_path', base],
      ['format', 'pt'],
      ['lora_alpha', String(alpha)],
    ]),
  )
  const targets = [...new Set([...tensors.keys()].map((name) => name.split('.').at(-3) ?? ''))].sort()
  checkTargets(config, targets, file)
  const { digest, count } = tensorsDigest(weights)
  return {
    adapter: adapterFromWeights(weights),
    rank,
    alpha,
    targets,
    tensors: digest,
    tensorCount: count,
    baseModel,
    source: path.basename(path.resolve(folder)),
  }
}
