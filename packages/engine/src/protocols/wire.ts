/**
 * Requests to a remote engine and its answers, in a form common to all kinds. A `Protocol` maps them to the HTTP
 * interface of one kind and back. It is pure: no clock, no socket.
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

/** `adapter`: the name that `Protocol.adapter.load` returned; null: the base model. */
export type WireRequest = {
  /** Name of the base model at the engine. */
  model: string
  adapter: string | null
  prompt: readonly number[]
  sampling: Sampling
  topLogprobs: number
  /** Ids that end the answer; the last one is part of it. */
  endOfTurn: readonly number[]
  /** EBNF that the answer must match, as `ebnfOf` of @instar/grammar writes it; absent: any text. */
  grammar?: string
  reweighting?: Reweighting
  chat: ChatRequest | null
}

type WireScoreRequest = Pick<WireRequest, 'model' | 'adapter'> & {
  prompt: readonly number[]
  completion: readonly number[]
}

type HttpCall = { path: string; body: JsonObject }

/** `logprob` NaN: not reported. */
export type WireToken = { id: number; logprob: number; top: readonly { id: number; logprob: number }[] }
/** An error inside an answer. `status` 0: not reported. `param`: the field that it is about. */
export type WireError = { message: string; status: number; param?: string }

/** One event of a stream. `text`: text without ids. */
export type Delta = {
  tokens: readonly WireToken[]
  text: string
  finish: 'stop' | 'length' | null
  usage: TokenCounts | null
  error: WireError | null
}
export const EMPTY_DELTA: Delta = { tokens: [], text: '', finish: null, usage: null, error: null }

/** What an engine reports of itself; null: not reported. `adapterFault`: why it takes no adapters; null: it does. */
export type Identity = {
  version: string
  model: string
  contextLength: number | null
  concurrent: number | null
  adapterFault: string | null
}

/** The engine's JSON interface. A list is returned as `{data}`. `get` gives null for a status other than 200; `body` is null for an answer that is not JSON. */
export type JsonClient = {
  get(path: string): Promise<JsonObject | null>
  post(path: string, body: JsonObject): Promise<{ status: number; body: JsonObject | null; text: string }>
}

export type Protocol = {
  kind: EngineKind
  /** Token ids in and out; else messages in and text out. */
  ids: boolean
  /** The engine matches stop strings; else they are matched here and end the request. */
  stopStrings: boolean
  /** Log-probs under a grammar are those of the masked distribution. */
  logprobsMasked: boolean
  identify(client: JsonClient, named: string | null): Promise<Identity>
  /** Null: the engine has no tokenizer endpoint. */
  tokenize(client: JsonClient, model: string, text: string): Promise<readonly number[] | null>
  generate(asked: WireRequest): HttpCall
  /** Makes a reader for the events of one answer, in order. */
  reader(asked: WireRequest): (event: JsonObject) => Delta
  /** Log-probs of given ids at temperature 1; null: not supported. `exclusive`: no other request may run meanwhile. */
  score: {
    exclusive: boolean
    call(given: WireScoreRequest): HttpCall
    read(body: JsonObject, given: WireScoreRequest): number[] | null
  } | null
  /** Null: not supported. */
  adapter: {
    /** Returns the name for `WireRequest.adapter`; an adapter that is loaded already is no error. Throws an Error with the reason. */
    load(client: JsonClient, adapter: { name: string; sha256: string; folder: string }): Promise<string>
    unload(client: JsonClient, name: string): Promise<void>
  } | null
  /** Whether an answer to `generate` means that the engine does not have the adapter. */
  adapterUnknown(status: number, said: string): boolean
}

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as readonly unknown[]) : [])
export const numberOr = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise)
export const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise)
export const idsOf = (value: unknown): number[] | null =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id)) ? (value as number[]) : null

/** The `error` of an event or a body: a text or an object. */
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
 * The name of an adapter at an engine: 128 bits of its sha256. Letters, digits and hyphens alone, since SGLang reads a
 * colon as the separator of base and adapter.
 */
export const adapterName = (sha256: string): string => `instar-${sha256.slice(0, 32)}`
