/** Opens a checkpoint: as a `Model` (tokenizer, template and metadata), or its weights or its tokenizer alone. */
import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { Prompter } from '../chat/prompt.ts'
import { ChatTemplate } from '../chat/template.ts'
import type { Model } from '@instar/engine/port'
import { Detokenizer } from '../tokenizer/detokenizer.ts'
import { TextTokenizer } from '../tokenizer/tokenizer.ts'
import { weightShapes, type ModelConfig, type Weights } from '../weights.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { holdsWeights, openCheckpoint, openMetadata, readJson, type Checkpoint } from './folder.ts'

/** The ChatML template, for checkpoints that have its tokens and no template. */
const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Uint8Array)
  return hash.digest('hex')
}

/**
 * sha256 of the lines `name␀sha256 of the bytes\n` of all files, in order. `named(name)`: the same hash if a single
 * file were named `<name>.gguf`; the hash of a folder does not depend on its name.
 */
async function hashFiles(files: readonly string[]): Promise<{ sha256: string; named(name: string): string }> {
  const hashes: string[] = []
  for (const file of files) hashes.push(await hashFile(file))
  const over = (names: readonly string[]): string =>
    names.reduce((hash, name, i) => hash.update(`${name}\0${hashes[i]!}\n`), createHash('sha256')).digest('hex')
  const sha256 = over(files.map((file) => path.basename(file)))
  return { sha256, named: (name) => (files.length === 1 ? over([`${name}.gguf`]) : sha256) }
}

/** The text of a token in tokenizer_config.json, which is a string or an object with `content`. */
function tokenText(value: unknown): string {
  if (typeof value === 'string') return value
  return isJsonObject(value) && typeof value['content'] === 'string' ? value['content'] : ''
}

/** Ids that end a turn: `eos_token_id` of generation_config.json (or config.json), and the tokenizer's eos token. */
function endOfTurn(generation: JsonObject, tokenizer: TextTokenizer, eosToken: string): number[] {
  const configured = generation['eos_token_id']
  const ids = new Set<number>()
  for (const id of Array.isArray(configured) ? configured : [configured])
    if (Number.isSafeInteger(id)) ids.add(Number(id))
  const eos = eosToken === '' ? undefined : tokenizer.id(eosToken)
  if (eos !== undefined) ids.add(eos)
  return [...ids].sort((a, b) => a - b)
}

function defaults(generation: JsonObject): Model['defaults'] {
  const number = (key: string, fallback: number) => (typeof generation[key] === 'number' ? generation[key] : fallback)
  return { temperature: number('temperature', 1), topP: number('top_p', 1), topK: number('top_k', 0) }
}

type ModelSource = Pick<Checkpoint, 'name' | 'tokenizer' | 'generation'> & {
  config: Pick<ModelConfig, 'contextLength' | 'vocabulary'>
}

function modelOf(checkpoint: ModelSource, { sha256, named }: Awaited<ReturnType<typeof hashFiles>>): Model {
  const { config, generation } = checkpoint
  const files = checkpoint.tokenizer
  const tokenizer = new TextTokenizer(files.tokenizer, files.config, `${checkpoint.name}: tokenizer.json`)
  const highest = tokenizer.added.reduce((max, token) => Math.max(max, token.id), 0)
  if (highest >= config.vocabulary)
    throw new InstarError(
      'bad_checkpoint',
      `${checkpoint.name}: token id ${highest} is outside the vocabulary of ${config.vocabulary}`,
    )
  const eosToken = tokenText(files.config['eos_token'])
  const source =
    files.template ??
    (tokenizer.id('<|im_start|>') !== undefined && tokenizer.id('<|im_end|>') !== undefined ? CHATML : null)
  if (source === null) throw new InstarError('bad_checkpoint', `${checkpoint.name}: the chat template is missing`)
  const ends = endOfTurn(generation, tokenizer, eosToken)
  const prompter = new Prompter(tokenizer, new ChatTemplate(source, `${checkpoint.name}: chat template`), {
    bosToken: tokenText(files.config['bos_token']),
    eosToken,
    endOfTurn: ends,
  })
  return {
    name: checkpoint.name,
    sha256,
    sha256Named: named,
    contextLength: config.contextLength,
    vocabulary: config.vocabulary,
    ...(tokenizer.longest > 0 ? { longestToken: tokenizer.longest } : {}),
    defaults: defaults(generation),
    endOfTurn: ends,
    mayReason: tokenizer.added.some(({ content, special }) => content === '<think>' && !special),
    encode: (text) => tokenizer.encode(text),
    decode: (ids) => tokenizer.decode(ids),
    detokenizer: () => new Detokenizer(tokenizer),
    render: (messages, options) => prompter.render(messages, options),
    promptIds: (messages, options) => prompter.ids(messages, { ...options, addGenerationPrompt: true }),
  }
}

/** `Model.sha256` of a checkpoint. */
export async function hashCheckpoint(target: string): Promise<string> {
  return (await hashFiles(openCheckpoint(target).files)).sha256
}

/** A `Model` without weights in memory. Reads all files once, as a stream, to compute `sha256`. */
export async function openModel(target: string): Promise<Model> {
  const checkpoint = openCheckpoint(target)
  return modelOf(checkpoint, await hashFiles(checkpoint.files))
}

/** The context length if config.json has none; the serving engine enforces the actual one. */
const UNKNOWN_CONTEXT = 1_000_000

/**
 * A `Model` for a model that a remote engine serves: a folder of any architecture, weights not required. `sha256` then
 * covers the small files only. A GGUF file is opened as by `openModel`.
 */
export async function openTokenizer(target: string): Promise<Model> {
  if (!statSync(target, { throwIfNoEntry: false })?.isDirectory()) return openModel(target)
  const { json, files, ...light } = openMetadata(target)
  const added = Array.isArray(light.tokenizer.tokenizer['added_tokens'])
    ? light.tokenizer.tokenizer['added_tokens'].filter(isJsonObject)
    : []
  const highest = added.reduce((max, { id }) => Math.max(max, Number(id)), 0)
  // Multimodal models store the configuration of the text model in `text_config`.
  const text = isJsonObject(json['text_config']) ? { ...json, ...json['text_config'] } : json
  const number = (key: string) => (typeof text[key] === 'number' ? text[key] : 0)
  const config = {
    contextLength: number('max_position_embeddings') || UNKNOWN_CONTEXT,
    vocabulary: Math.max(number('vocab_size'), highest + 1),
  }
  return modelOf({ ...light, config }, await hashFiles(files))
}

/** The base of a line, whose weights may be on servers alone: as `openModel` where it holds any, else `openTokenizer`. */
export const openBase = (target: string): Promise<Model> =>
  holdsWeights(target) ? openModel(target) : openTokenizer(target)

/** The configuration and weights of a checkpoint. Tensors are read on demand and not cached. */
export function loadWeights(target: string): { config: ModelConfig; weights: Weights } {
  const { config, weights } = openCheckpoint(target)
  return { config, weights }
}

/** The number of parameters of a checkpoint, from its headers. Throws `bad_checkpoint`. */
export function parameterCount(target: string): number {
  return weightShapes(openCheckpoint(target).config).reduce(
    (sum, [, shape]) => sum + shape.reduce((product, length) => product * length, 1),
    0,
  )
}

/**
 * The number of parameters of a folder without weights, roughly, from its config.json: matrices of a decoder with a gated
 * feed-forward layer. Null where that does not tell, or is not there.
 */
export function estimatedParameters(target: string): number | null {
  const json = readJson(path.join(target, 'config.json')) ?? {}
  // Multimodal models store the configuration of the text model in `text_config`.
  const text = isJsonObject(json['text_config']) ? { ...json, ...json['text_config'] } : json
  const [hidden, layers, vocabulary, inner] = [
    'hidden_size',
    'num_hidden_layers',
    'vocab_size',
    'intermediate_size',
  ].map((name) => Number(text[name] ?? Number.NaN)) as [number, number, number, number]
  const heads = text['tie_word_embeddings'] === true ? 1 : 2
  const count = heads * vocabulary * hidden + layers * (4 * hidden * hidden + 3 * hidden * inner)
  return Number.isSafeInteger(count) && count > 0 ? count : null
}

/** The tokenizer of a checkpoint and the ids that end a turn. */
export function loadTokenizer(target: string): { tokenizer: TextTokenizer; endOfTurn: number[] } {
  const checkpoint = openCheckpoint(target)
  const tokenizer = new TextTokenizer(
    checkpoint.tokenizer.tokenizer,
    checkpoint.tokenizer.config,
    `${checkpoint.name}: tokenizer.json`,
  )
  return {
    tokenizer,
    endOfTurn: endOfTurn(checkpoint.generation, tokenizer, tokenText(checkpoint.tokenizer.config['eos_token'])),
  }
}
