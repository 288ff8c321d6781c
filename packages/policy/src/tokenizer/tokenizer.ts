/**
 * Tokenisation with @huggingface/tokenizers. The library splits texts and applies merges. This module decides which
 * parts of a text become control tokens, so that the text of a message never does, and maps ids to bytes, so that
 * decoding can stream.
 */
import { Tokenizer as Library } from '@huggingface/tokenizers'
import { InstarError } from '@instar/events/errors'
import { badCheckpoint, unreadable } from '../checkpoints/bad-checkpoint.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { tokenBytes, type ByteForm } from './bytes.ts'
import { splitsInTime } from './split-time.ts'
import { TokenCache } from './token-cache.ts'

/**
 * A token that is not produced by merges. Decoding omits it if it is `special`. `lstrip`, `rstrip`: encoding drops
 * white space to its left or right.
 */
type AddedToken = { id: number; content: string; special: boolean; lstrip: boolean; rstrip: boolean }

function readAdded(json: JsonObject, file: string): AddedToken[] {
  const list = json['added_tokens'] ?? []
  if (!Array.isArray(list)) throw badCheckpoint(file, 'added_tokens is not an array')
  return list.map((entry: unknown) => {
    if (
      !isJsonObject(entry) ||
      typeof entry['content'] !== 'string' ||
      entry['content'] === '' ||
      !Number.isSafeInteger(entry['id'])
    ) {
      throw badCheckpoint(file, 'an entry of added_tokens has no id or content')
    }
    return {
      id: Number(entry['id']),
      content: entry['content'],
      special: entry['special'] === true,
      lstrip: entry['lstrip'] === true,
      rstrip: entry['rstrip'] === true,
    }
  })
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

/** A pattern that matches the texts of the tokens, longest first; null if there are no tokens. */
function patternOf(tokens: readonly AddedToken[]): string | null {
  if (tokens.length === 0) return null
  return tokens
    .map((token) => token.content)
    .sort((a, b) => b.length - a.length)
    .map(escaped)
    .join('|')
}

function beforeOf(tokens: readonly AddedToken[]): RegExp | null {
  const pattern = patternOf(tokens)
  return pattern === null ? null : new RegExp(`(?=${pattern})`, 'gu')
}

/** Characters of the texts whose ids are cached: about a hundred long conversations, some 20 MB. */
const CACHED_CHARACTERS = 4_000_000

export class TextTokenizer {
  readonly added: readonly AddedToken[]
  /** Ids that decoding omits. */
  readonly specialIds: ReadonlySet<number>
  /**
   * UTF-16 code units of the longest text that one id represents; 0 if normalisation or trimming lets an id represent
   * more text than its vocabulary entry.
   */
  readonly longest: number
  private readonly library: Library
  private readonly byContent: ReadonlyMap<string, AddedToken>
  private readonly byId: ReadonlyMap<number, AddedToken>
  private readonly form: ByteForm
  private readonly bytes = new Map<number, Uint8Array>()
  /** Match the empty text before an added token, and before a special one; null if there is none. */
  private readonly beforeAdded: RegExp | null
  private readonly beforeSpecial: RegExp | null
  private readonly cache = new TokenCache(CACHED_CHARACTERS)

  /** `json` is tokenizer.json, `config` tokenizer_config.json (or {}). Throws `bad_checkpoint`. */
  constructor(json: unknown, config: unknown, file = 'tokenizer.json') {
    if (!isJsonObject(json)) throw badCheckpoint(file, 'is not an object')
    this.added = readAdded(json, file)
    this.specialIds = new Set(this.added.filter((token) => token.special).map((token) => token.id))
    this.byContent = new Map(this.added.map((token) => [token.content, token]))
    this.byId = new Map(this.added.map((token) => [token.id, token]))
    this.beforeAdded = beforeOf(this.added)
    this.beforeSpecial = beforeOf(this.added.filter((token) => token.special))
    this.form = byteForm(json['decoder'], file)
    this.longest = this.longestText(json)
    try {
      this.library = new Library(
        { ...json, added_tokens: [], pre_tokenizer: withUnicodeSplits(json['pre_tokenizer']) },
        isJsonObject(config) ? config : {},
      )
    } catch (error) {
      throw unreadable(file, error)
    }
    if (!splitsInTime((text) => this.library.encode(text, { add_special_tokens: false })))
      throw badCheckpoint(file, 'its patterns take too long to split a text of 64 characters')
  }

  private longestText(json: JsonObject): number {
    const trims = this.added.some(({ lstrip, rstrip }) => lstrip || rstrip)
    const vocabulary = isJsonObject(json['model']) ? json['model']['vocab'] : null
    if (trims || (json['normalizer'] ?? null) !== null || !isJsonObject(vocabulary)) return 0
    let longest = 0
    for (const text of [...Object.keys(vocabulary), ...this.added.map(({ content }) => content)])
      longest = Math.max(longest, text.length)
    return longest
  }

  /** Ids of plain text; no part of it becomes a control token. Throws `bad_request` for characters without a token. */
  encode(text: string): number[] {
    if (text === '') return []
    const cached = this.cache.get(text)
    if (cached) return [...cached]
    const ids = this.merge(text)
    this.cache.add(text, ids)
    return [...ids]
  }

  private merge(text: string): number[] {
    const { ids } = this.library.encode(text, { add_special_tokens: false })
    const out: number[] = []
    for (const id of ids) {
      if (!Number.isInteger(id))
        throw new InstarError('bad_request', "The text contains a character that the model's tokenizer cannot encode.")
      const control = this.byId.get(id)
      if (!control) out.push(id)
      else {
        // Merges produced a control token: its first character and the rest are encoded separately.
        const first = String.fromCodePoint(control.content.codePointAt(0) ?? 0)
        if (first === control.content)
          throw new InstarError(
            'bad_request',
            `The model's tokenizer cannot encode ${JSON.stringify(first)} as plain text.`,
          )
        out.push(...this.merge(first), ...this.merge(control.content.slice(first.length)))
      }
    }
    return out
  }

  /** Inserts `mark` before each occurrence of an added token's text; with `specialOnly`, before special tokens only. */
  guard(text: string, mark: string, specialOnly: boolean): string {
    const before = specialOnly ? this.beforeSpecial : this.beforeAdded
    return text === '' || before === null ? text : text.replace(before, mark)
  }

  /**
   * Ids of rendered text in which added tokens are recognised, except directly after `mark`. Marks are removed.
   * `splice` + number + `splice` is replaced by the ids of that number in `spliced`.
   */
  encodeMarked(text: string, mark: string, splice: string, spliced: ReadonlyMap<number, readonly number[]>): number[] {
    const tokens = patternOf(this.added)
    const border = new RegExp(`${splice}(\\d+)${splice}${tokens === null ? '' : `|(?<!${mark})(?:${tokens})`}`, 'gu')
    const out: number[] = []
    let from = 0
    let trimStart = false
    const plain = (segment: string, trimEnd: boolean) => {
      let rest = segment.replaceAll(mark, '')
      if (trimStart) rest = rest.trimStart()
      if (trimEnd) rest = rest.trimEnd()
      // Not push(...ids): a long text has more ids than a call may have arguments.
      for (const id of this.encode(rest)) out.push(id)
    }
    for (const match of text.matchAll(border)) {
      const token = match[1] === undefined ? this.byContent.get(match[0]) : undefined
      plain(text.slice(from, match.index), token?.lstrip ?? false)
      if (token) out.push(token.id)
      else for (const id of spliced.get(Number(match[1])) ?? []) out.push(id)
      trimStart = token?.rstrip ?? false
      from = match.index + match[0].length
    }
    plain(text.slice(from), false)
    return out
  }

  /** Id of a token, added or ordinary, by its text in the vocabulary. */
  id(content: string): number | undefined {
    return this.byContent.get(content)?.id ?? this.library.token_to_id(content)
  }

  /** UTF-8 bytes of `id`, possibly a part of a character; none for special tokens and ids outside the vocabulary. */
  bytesOf(id: number): Uint8Array {
    let bytes = this.bytes.get(id)
    if (!bytes) {
      const added = this.byId.get(id)
      bytes = added
        ? new TextEncoder().encode(added.special ? '' : added.content)
        : tokenBytes(this.library.id_to_token(id) ?? '', this.form)
      this.bytes.set(id, bytes)
    }
    return bytes
  }

  decode(ids: readonly number[]): string {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    let text = ''
    for (const id of ids) text += decoder.decode(this.bytesOf(id), { stream: true })
    text += decoder.decode()
    return this.form.stripLeadingSpace && text.startsWith(' ') ? text.slice(1) : text
  }
}

/**
 * GPT-2's pattern (encoder.py). As a Split step the library translates it to JavaScript's syntax and corrects \s, which
 * differs there (NEL, BOM).
 */
const GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const split = (regex: string): JsonObject => ({
  type: 'Split',
  pattern: { Regex: regex },
  behavior: 'Isolated',
  invert: false,
})

/**
 * Rewrites pre-tokenizers so that this library splits texts like Hugging Face's Rust library. Its `Digits` matches
 * ASCII digits only instead of all Unicode numbers, and its `ByteLevel` uses JavaScript's definition of white space.
 */
function withUnicodeSplits(step: unknown): unknown {
  if (!isJsonObject(step)) return step
  if (step['type'] === 'Digits') return split(step['individual_digits'] === true ? '\\p{N}' : '\\p{N}+')
  if (step['type'] === 'ByteLevel' && step['use_regex'] !== false && step['add_prefix_space'] !== true) {
    return { type: 'Sequence', pretokenizers: [split(GPT2_SPLIT), { ...step, use_regex: false }] }
  }
  const steps = step['pretokenizers']
  return Array.isArray(steps) ? { ...step, pretokenizers: steps.map(withUnicodeSplits) } : step
}

/**
 * Reads the decoder of tokenizer.json. Supported: ByteLevel, or a sequence of Replace, ByteFallback, Fuse and Strip.
 */
function byteForm(decoder: unknown, file: string): ByteForm {
  const form: ByteForm = { byteLevel: false, byteFallback: false, replace: [], stripLeadingSpace: false }
  const steps =
    isJsonObject(decoder) && decoder['type'] === 'Sequence' && Array.isArray(decoder['decoders'])
      ? decoder['decoders']
      : [decoder]
  for (const step of steps) {
    if (!isJsonObject(step)) throw badCheckpoint(file, 'the decoder is missing')
    const pattern = step['pattern']
    if (step['type'] === 'ByteLevel') form.byteLevel = true
    else if (step['type'] === 'ByteFallback') form.byteFallback = true
    else if (
      step['type'] === 'Replace' &&
      isJsonObject(pattern) &&
      typeof pattern['String'] === 'string' &&
      typeof step['content'] === 'string'
    )
      form.replace.push([pattern['String'], step['content']])
    else if (step['type'] === 'Strip' && step['content'] === ' ' && step['start'] === 1 && step['stop'] === 0)
      form.stripLeadingSpace = true
    else if (step['type'] !== 'Fuse')
      throw new InstarError(
        'bad_checkpoint',
        `${file}: decoder ${JSON.stringify(String(step['type']).slice(0, 60))} is not supported`,
        { file },
      )
  }
  return form
}
