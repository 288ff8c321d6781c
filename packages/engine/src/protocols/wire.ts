/**
 * What an engine behind HTTP is asked and what it says, whichever it is. A `Protocol` maps one to the other and
 * does nothing else: no clock, no socket.
 */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { EngineKind } from './kinds.ts'
import type { ChatRequest, Reweighting, Sampling, TokenCounts } from '../port.ts'

export const UNWEIGHTED: Reweighting = {
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  minP: 0,
  logitBias: [],
}

/** `adapter`: what `Protocol.adapter.load` gave for it; null: the base. */
export type WireRequest = {
  /** What the engine calls the base model. */
  model: string
  adapter: string | null
  prompt: readonly number[]
  sampling: Sampling
  topLogprobs: number
  /** Ids at which it has to stop, and which it then gives. */
  endOfTurn: readonly number[]
  /** That the answer must be of, as packages/grammar/src/ebnf.ts writes it; absent: any text. */
  grammar?: string
  reweighting?: Reweighting
  chat: ChatRequest | null
}

export type WireScoreRequest = Pick<WireRequest, 'model' | 'adapter'> & {
  prompt: readonly number[]
  completion: readonly number[]
}

export type HttpCall = { path: string; body: JsonObject }

/** `logprob` NaN: the engine did not say. */
export type WireToken = { id: number; logprob: number; top: readonly { id: number; logprob: number }[] }
/** An error inside an answer; `status` 0: it names none. `param`: the field that it is about. */
export type WireError = { message: string; status: number; param?: string }

/** One event of a stream. `text`: what came without ids. */
export type Delta = {
  tokens: readonly WireToken[]
  text: string
  finish: 'stop' | 'length' | null
  usage: TokenCounts | null
  error: WireError | null
}
export const EMPTY_DELTA: Delta = { tokens: [], text: '', finish: null, usage: null, error: null }

/** What an engine says of itself. Null: it does not say. `adapterFault`: why it takes no adapters; null where it does. */
export type Identity = {
  version: string
  model: string
  contextLength: number | null
  concurrent: number | null
  adapterFault: string | null
}

/** Answers of the engine as JSON, a list as `{data}`; null: it has no such path, or answers with something else there. */
export type JsonClient = {
  get(path: string): Promise<JsonObject | null>
  post(path: string, body: JsonObject): Promise<{ status: number; body: JsonObject | null; text: string }>
}

export type Protocol = {
  kind: EngineKind
  /** It takes ids and gives ids; else messages and text. */
  ids: boolean
  /** It is told the stop strings; else an answer is given up when one has come. */
  stopStrings: boolean
  /** Under a grammar its log-probs are those among what may come next; else they may be those before it. */
  logprobsMasked: boolean
  identify(client: JsonClient, named: string | null): Promise<Identity>
  /** Null: it does not tell how it would cut a text into ids. */
  tokenize(client: JsonClient, model: string, text: string): Promise<readonly number[] | null>
  generate(asked: WireRequest): HttpCall
  /** Reads the events of one answer in order. */
  reader(asked: WireRequest): (event: JsonObject) => Delta
  /** Log-probs of given ids, at temperature 1; null: it cannot. `alone`: it must not be asked while answers run there. */
  score: {
    exclusive: boolean
    call(given: WireScoreRequest): HttpCall
    read(body: JsonObject, given: WireScoreRequest): number[] | null
  } | null
  /** Null: it takes none. */
  adapter: {
    /** What `Asked.adapter` is from now on; there already is as good as loaded. Throws an Error that says why not. */
    load(client: JsonClient, adapter: { name: string; sha256: string; folder: string }): Promise<string>
    unload(client: JsonClient, name: string): Promise<void>
  } | null
  /** Of an answer to `generate`: the adapter is not known there (any more). */
  adapterUnknown(status: number, said: string): boolean
}

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as readonly unknown[]) : [])
export const numberOr = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise)
export const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise)
export const idsOf = (value: unknown): number[] | null =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id)) ? (value as number[]) : null

/** The `error` of an event or a body, in whichever of its shapes. */
export const errorOf = (body: JsonObject): WireError | null => {
  const { error } = body
  if (error === undefined || error === null) return null
  if (!isJsonObject(error)) return { message: textOr(error, 'error'), status: 0 }
  const { param } = error
  return {
    message: textOr(error['message'], 'error'),
    status: numberOr(error['code'], 0),
    ...(typeof param === 'string' ? { param } : {}),
  }
}

export const usageOf = (value: unknown): TokenCounts | null => {
  if (!isJsonObject(value) || typeof value['completion_tokens'] !== 'number') return null
  const [prompt, completion] = [value['prompt_tokens_details'], value['completion_tokens_details']].map((details) =>
    isJsonObject(details) ? details : {},
  )
  const details = {
    cachedTokens: prompt!['cached_tokens'],
    cacheWriteTokens: prompt!['cache_write_tokens'],
    reasoningTokens: completion!['reasoning_tokens'],
  }
  const told = Object.entries(details).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  return {
    promptTokens: numberOr(value['prompt_tokens'], 0),
    completionTokens: value['completion_tokens'],
    ...Object.fromEntries(told),
  }
}

/**
 * The name of an adapter at an engine: of its bytes, so that it is never that of others. 128 bits of the sha256.
 * Letters, digits and hyphens: a colon would part base and adapter at SGLang.
 */
export const adapterName = (sha256: string): string => `instar-${sha256.slice(0, 32)}`
