/** `Model` (port.ts) over a checkpoint on disk, and the weights of the same checkpoint for a worker. */
import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { Prompter } from '../chat/prompt.ts'
import { ChatTemplate } from '../chat/template.ts'
import type { Model } from '@instar/engine/port'
import { Detokenizer } from '../tokenizer/detokenizer.ts'
import { TextTokenizer } from '../tokenizer/tokenizer.ts'
import type { ModelConfig, Weights } from '../weights.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { openCheckpoint, openMetadata, type Checkpoint } from './folder.ts'

/** ChatML, for checkpoints that bring no template but know its tokens. */
const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Uint8Array)
  return hash.digest('hex')
}

/**
 * sha256 over `name␀sha256 of the bytes\n` of each file in order. `named`: the same hash for a model of that name;
 * the files of a folder have their own names.
 */
async function hashFiles(files: readonly string[]): Promise<{ sha256: string; named(name: string): string }> {
  const hashes: string[] = []
  for (const file of files) hashes.push(await hashFile(file))
  const over = (names: readonly string[]): string =>
    names.reduce((hash, name, i) => hash.update(`${name}\0${hashes[i]!}\n`), createHash('sha256')).digest('hex')
  const sha256 = over(files.map((file) => path.basename(file)))
  return { sha256, named: (name) => (files.length === 1 ? over([`${name}.gguf`]) : sha256) }
}

/** The text of a token entry: a string, or an object with `content`. */
function tokenText(value: unknown): string {
  if (typeof value === 'string') return value
  return isJsonObject(value) && typeof value['content'] === 'string' ? value['content'] : ''
}

/** Ids that end a turn: those of generation_config (or config), and the tokenizer's eos token. */
function endOfTurn(generation: JsonObject, tokenizer: TextTokenizer, eosToken: string): number[] {
  const given = generation['eos_token_id']
  const ids = new Set<number>()
  for (const id of Array.isArray(given) ? given : [given]) if (Number.isSafeInteger(id)) ids.add(Number(id))
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
      `${checkpoint.name}: token ${highest} is beyond the vocabulary of ${config.vocabulary}`,
    )
  const eosToken = tokenText(files.config['eos_token'])
  const source =
    files.template ??
    (tokenizer.id('<|im_start|>') !== undefined && tokenizer.id('<|im_end|>') !== undefined ? CHATML : null)
  if (source === null) throw new InstarError('bad_checkpoint', `${checkpoint.name}: has no chat template`)
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
    thinks: tokenizer.added.some(({ content, special }) => content === '<think>' && !special),
    encode: (text) => tokenizer.encode(text),
    decode: (ids) => tokenizer.decode(ids),
    detokenizer: () => new Detokenizer(tokenizer),
    render: (messages, options) => prompter.render(messages, options),
    promptIds: (messages, options) => prompter.ids(messages, { ...options, addGenerationPrompt: true }),
  }
}

/** `Model.sha256` without the rest of the model. */
export async function hashCheckpoint(target: string): Promise<string> {
  return (await hashFiles(openCheckpoint(target).files)).sha256
}

/** The light part: no tensor is kept. Reads the whole of the weights once, streaming, for `sha256`. */
export async function openModel(target: string): Promise<Model> {
  const checkpoint = openCheckpoint(target)
  return modelOf(checkpoint, await hashFiles(checkpoint.files))
}

/** The context of a model whose folder does not say: the engine that serves it does. */
const UNSAID_CONTEXT = 1_000_000

/**
 * For a model that somebody else serves: its folder without the weights, of any architecture. `sha256` is then of
 * the small files alone. A GGUF file is read whole.
 */
export async function openTokenizer(target: string): Promise<Model> {
  if (!statSync(target, { throwIfNoEntry: false })?.isDirectory()) return openModel(target)
  const { json, files, ...light } = openMetadata(target)
  const added = Array.isArray(light.tokenizer.tokenizer['added_tokens'])
    ? light.tokenizer.tokenizer['added_tokens'].filter(isJsonObject)
    : []
  const highest = added.reduce((max, { id }) => Math.max(max, Number(id)), 0)
  // Multimodal models keep what their text part is in a part of its own.
  const text = isJsonObject(json['text_config']) ? { ...json, ...json['text_config'] } : json
  const number = (key: string) => (typeof text[key] === 'number' ? text[key] : 0)
  const config = {
    contextLength: number('max_position_embeddings') || UNSAID_CONTEXT,
    vocabulary: Math.max(number('vocab_size'), highest + 1),
  }
  return modelOf({ ...light, config }, await hashFiles(files))
}

/** What an engine's worker needs. Tensors are read when asked for and not kept. */
export function loadWeights(target: string): { config: ModelConfig; weights: Weights } {
  const { config, weights } = openCheckpoint(target)
  return { config, weights }
}

/** What a serving worker needs to turn ids into text: the tokenizer alone. */
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
