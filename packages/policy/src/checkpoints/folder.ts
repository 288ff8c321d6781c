/**
 * Reads a model from disk: a folder in the layout of Hugging Face (config.json, tokenizer.json, tokenizer_config.json
 * or chat_template.jinja, generation_config.json, model.safetensors or shards with an index), or one GGUF file. Opening
 * reads headers and small files only; tensors are read one at a time, on demand.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { badCheckpoint } from './bad-checkpoint.ts'
import { weightShapes, type ModelConfig, type PackedTensor, type WeightTensor, type Weights } from '../weights.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { readRegularFile } from '@instar/events/regular-file'
import { checkConfig, configFromJson } from './config.ts'
import { dequantise, packQ4, parseGguf, type Gguf } from './gguf.ts'
import { ggufConfig, ggufTensors, isPermuted, unpermute, unpermuteBlocks } from './gguf-model.ts'
import { ggufTokenizer, type TokenizerFiles } from './gguf-tokenizer.ts'
import { decodeTensor, headerLength, parseHeader, type TensorEntry } from './safetensors.ts'

/** `files`: all files that determine the model's output, in the order in which they are hashed. */
export type Checkpoint = {
  name: string
  files: string[]
  config: ModelConfig
  tokenizer: TokenizerFiles
  generation: JsonObject
  weights: Weights
}

const MAX_SMALL_FILE = 64 * 1024 * 1024
const MAX_GGUF_HEADER = 64 * 1024 * 1024

/** Null: there is none. Throws `bad_checkpoint` for what is not a regular file: a pipe would be waited for. */
function sizeOf(file: string): number | null {
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat && !stat.isFile()) throw badCheckpoint(file, 'is not a regular file')
  return stat?.size ?? null
}

/** `length` bytes from byte `begin`; fewer at the end of the file. */
function readRange(file: string, begin: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  const handle = openSync(file, 'r')
  try {
    let done = 0
    while (done < length) {
      const read = readSync(handle, bytes, done, Math.min(length - done, 1 << 30), begin + done)
      if (read === 0) return bytes.subarray(0, done)
      done += read
    }
    return bytes
  } finally {
    closeSync(handle)
  }
}

function readText(file: string): string | null {
  const size = sizeOf(file)
  if (size === null) return null
  if (size > MAX_SMALL_FILE) throw badCheckpoint(file, `has ${size} bytes; at most ${MAX_SMALL_FILE} are allowed`)
  try {
    return readRegularFile(file, MAX_SMALL_FILE).toString('utf8')
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw badCheckpoint(file, 'is not a regular file', {}, error)
  }
}

/** Null: there is none. Throws `bad_checkpoint` for what is no JSON object. */
export function readJson(file: string): JsonObject | null {
  const text = readText(file)
  if (text === null) return null
  try {
    const value: unknown = JSON.parse(text)
    if (isJsonObject(value)) return value
  } catch (error) {
    throw badCheckpoint(file, 'is not JSON', {}, error)
  }
  throw badCheckpoint(file, 'is not a JSON object')
}

/** Throws `bad_checkpoint` for missing tensors and wrong shapes. */
function checkShapes(
  config: ModelConfig,
  shapeOf: (name: string) => readonly number[] | undefined,
  file: string,
): void {
  for (const [name, shape] of weightShapes(config)) {
    const found = shapeOf(name)
    if (!found) throw badCheckpoint(file, `tensor ${JSON.stringify(name)} is missing`)
    if (found.length !== shape.length || found.some((n, i) => n !== shape[i]))
      throw badCheckpoint(
        file,
        `tensor ${JSON.stringify(name)} has shape [${found.join(', ')}]; the configuration requires [${shape.join(', ')}]`,
      )
  }
}

/** Weights that are read one tensor at a time and are not cached. */
function lazyWeights(names: readonly string[], read: (name: string) => WeightTensor | null): Weights {
  return {
    names: () => names,
    get(name) {
      const tensor = read(name)
      if (!tensor)
        throw new InstarError('bad_checkpoint', `tensor ${JSON.stringify(name)} is missing`, { tensor: name })
      return tensor
    },
  }
}

function readHeader(file: string): Map<string, TensorEntry> {
  const size = sizeOf(file)
  if (size === null) throw badCheckpoint(file, 'is missing')
  const length = headerLength(readRange(file, 0, 8), size, file)
  return parseHeader(readRange(file, 8, length), size, file).tensors
}

/** The safetensors files of a folder: the single one, or those that the index names. */
function weightFiles(folder: string): string[] {
  const single = path.join(folder, 'model.safetensors')
  if (sizeOf(single) !== null) return [single]
  const indexFile = path.join(folder, 'model.safetensors.index.json')
  const index = readJson(indexFile)
  if (!index) throw badCheckpoint(folder, 'contains neither model.safetensors nor model.safetensors.index.json')
  const map = index['weight_map']
  if (!isJsonObject(map)) throw badCheckpoint(indexFile, 'weight_map is missing')
  const names = new Set<string>()
  for (const name of Object.values(map)) {
    if (typeof name !== 'string' || path.basename(name) !== name || !name.endsWith('.safetensors'))
      throw badCheckpoint(indexFile, 'weight_map contains a name that is not a safetensors file in this folder')
    names.add(name)
  }
  return [...names].sort((a, b) => (a < b ? -1 : 1)).map((name) => path.join(folder, name))
}

/** The chat template of tokenizer_config.json: a string, or the entry `default` of a list of named templates. */
function templateOf(config: JsonObject): string | null {
  const template = config['chat_template']
  if (typeof template === 'string') return template
  if (!Array.isArray(template)) return null
  const named = template.filter(isJsonObject).find((entry) => entry['name'] === 'default')?.['template']
  return typeof named === 'string' ? named : null
}

/** The contents of a folder without its weights. `json`: config.json. */
type CheckpointMetadata = Pick<Checkpoint, 'name' | 'files' | 'tokenizer' | 'generation'> & { json: JsonObject }

export function openMetadata(folder: string): CheckpointMetadata {
  const at = (name: string) => path.join(folder, name)
  const json = readJson(at('config.json'))
  if (!json) throw badCheckpoint(folder, 'holds no config.json')
  const tokenizer = readJson(at('tokenizer.json'))
  if (!tokenizer) throw badCheckpoint(folder, 'holds no tokenizer.json')
  const tokenizerConfig = readJson(at('tokenizer_config.json')) ?? {}
  return {
    name: path.basename(path.resolve(folder)),
    files: ['chat_template.jinja', 'config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json']
      .map(at)
      .filter((file) => sizeOf(file) !== null),
    tokenizer: {
      tokenizer,
      config: tokenizerConfig,
      template: readText(at('chat_template.jinja')) ?? templateOf(tokenizerConfig),
    },
    generation: { ...json, ...readJson(at('generation_config.json')) },
    json,
  }
}

/** Whether a folder holds weights, or is a file that does. */
export function holdsWeights(target: string): boolean {
  const stat = statSync(target, { throwIfNoEntry: false })
  if (!stat?.isDirectory()) return stat !== undefined
  return ['model.safetensors', 'model.safetensors.index.json'].some((name) => sizeOf(path.join(target, name)) !== null)
}

function openFolder(folder: string): Checkpoint {
  const at = (name: string) => path.join(folder, name)
  const { json: configJson, files: small, ...light } = openMetadata(folder)
  const shards = weightFiles(folder)
  const entries = new Map<string, TensorEntry & { file: string }>()
  for (const file of shards) {
    for (const [name, entry] of readHeader(file)) {
      if (entries.has(name)) throw badCheckpoint(file, `tensor ${JSON.stringify(name)} is in another shard as well`)
      entries.set(name, { ...entry, file })
    }
  }
  const config = configFromJson(configJson, at('config.json'), !entries.has('lm_head.weight'))
  checkShapes(config, (name) => entries.get(name)?.shape, folder)
  const weights = lazyWeights(
    weightShapes(config).map(([name]) => name),
    (name) => {
      const entry = entries.get(name)
      if (!entry) return null
      const { data } = decodeTensor(entry, readRange(entry.file, entry.begin, entry.end - entry.begin))
      if (!(data instanceof Float32Array))
        throw badCheckpoint(
          entry.file,
          `tensor ${JSON.stringify(name)} is ${entry.dtype}, not a float of 16 or 32 bits`,
        )
      return { shape: entry.shape, data }
    },
  )
  return { ...light, files: [...small, ...shards], config, weights }
}

/** Parses increasingly long prefixes of the file, since the format does not state the length of the header. */
function readGgufHeader(file: string, size: number): Gguf {
  for (let prefix = Math.min(size, 4 << 20); ; prefix = Math.min(size, prefix * 4, MAX_GGUF_HEADER)) {
    try {
      return parseGguf(readRange(file, 0, prefix), size, file)
    } catch (error) {
      const short = error instanceof InstarError && error.details['truncated'] === true
      if (!short || prefix === size || prefix === MAX_GGUF_HEADER) throw error
    }
  }
}

function openGguf(file: string): Checkpoint {
  const size = sizeOf(file)
  if (size === null) throw badCheckpoint(file, 'is missing')
  const gguf = readGgufHeader(file, size)
  const config = checkConfig(ggufConfig(gguf, file), file)
  const tensors = ggufTensors(gguf, file)
  checkShapes(config, (name) => tensors.get(name)?.shape, file)
  const weights = lazyWeights(
    weightShapes(config).map(([name]) => name),
    (name) => {
      const entry = tensors.get(name)
      if (!entry) return null
      const tensor = {
        shape: entry.shape,
        data: dequantise(entry.type, readRange(file, entry.begin, entry.end - entry.begin)),
      }
      return isPermuted(gguf, name) ? unpermute(tensor, config.headDim) : tensor
    },
  )
  const packed = (name: string): PackedTensor | null => {
    const entry = tensors.get(name)
    if (!entry || entry.type !== 'q4_1' || entry.shape.length !== 2) return null
    const [rows, columns] = entry.shape as [number, number]
    const bytes = readRange(file, entry.begin, entry.end - entry.begin)
    return packQ4(isPermuted(gguf, name) ? unpermuteBlocks(bytes, rows, config.headDim) : bytes, [rows, columns])
  }
  const eos = gguf.metadata.get('tokenizer.ggml.eos_token_id')
  return {
    name: path.basename(file).replace(/\.gguf$/i, ''),
    files: [file],
    config,
    tokenizer: ggufTokenizer(gguf, file),
    generation: typeof eos === 'number' ? { eos_token_id: eos } : {},
    weights: { ...weights, packed },
  }
}

/** `target`: path of a folder or of a .gguf file. Throws `bad_checkpoint`. */
export function openCheckpoint(target: string): Checkpoint {
  const stat = statSync(target, { throwIfNoEntry: false })
  if (!stat) throw badCheckpoint(target, 'the file or folder does not exist')
  return stat.isDirectory() ? openFolder(target) : openGguf(target)
}
