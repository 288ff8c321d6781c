/**
 * Requests to a remote engine and its answers, in a form common to all kinds. A `Protocol` maps them to the HTTP
 * interface of one kind and back. It is pure: it uses no clock and no sockets of its own.
 */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { EngineKind } from './kinds.ts'
import type { ChatRequest, Reweighting, Sampling, TokenCounts } from '../port.ts'

export const NO_REWEIGHTING: Reweighting = {
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
  /** Ids that end the answer; the answer includes the id that ended it. */
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

/** The log-probs of `ids` as the token after `prompt`, at `temperature`. */
export type WireNextRequest = Pick<WireRequest, 'model' | 'adapter' | 'prompt'> & {
  ids: readonly number[]
  temperature: number
}

type HttpCall = { path: string; body: JsonObject }

/** `logprob`: in nats; NaN if not reported. */
export type WireToken = { id: number; logprob: number; top: readonly { id: number; logprob: number }[] }
/** An error in a response body. `status` 0: not reported. `param`: the request field that caused it. */
export type WireError = { message: string; status: number; param?: string }

/** One event of a streamed answer. `text`: text whose ids are not reported. */
export type Delta = {
  tokens: readonly WireToken[]
  text: string
  finish: 'stop' | 'length' | null
  usage: TokenCounts | null
  error: WireError | null
}
export const EMPTY_DELTA: Delta = { tokens: [], text: '', finish: null, usage: null, error: null }

/** Whether an event is no part of an answer. */
export const isEmpty = ({ tokens, text, finish, usage, error }: Delta): boolean =>
  tokens.length === 0 && text === '' && finish === null && usage === null && error === null

/**
 * Properties that an engine reports; null: not reported. `concurrent`: the number of requests that it runs at once.
 * `adapterFault`: the reason why it loads no adapters; null if it loads them.
 */
export type Identity = {
  version: string
  model: string
  contextLength: number | null
  concurrent: number | null
  adapterFault: string | null
}

/**
 * JSON requests to one engine. A JSON array is returned as `{data}`. `get` returns null for a status other than 200;
 * `body` is null for a response that is not JSON.
 */
export type JsonClient = {
  get(path: string): Promise<JsonObject | null>
  post(path: string, body: JsonObject): Promise<{ status: number; body: JsonObject | null; text: string }>
}

/** `config`: adapter_config.json. `weights`: adapter_model.safetensors. */
export type AdapterBytes = { config: Uint8Array; weights: Uint8Array }

export type Protocol = {
  kind: EngineKind
  /** Requests and answers are token ids; else messages and text. */
  ids: boolean
  /** The engine matches stop strings; else `AnswerAssembly` matches them and the request is cancelled. */
  stopStrings: boolean
  /** Log-probs under a grammar are those of the masked distribution. */
  logprobsMasked: boolean
  /**
   * `servedName`: the name of the base model at the engine; null: the first that it lists. Throws an Error with the
   * reason.
   */
  identify(client: JsonClient, servedName: string | null): Promise<Identity>
  /** Null: the engine has no tokenizer endpoint. */
  tokenize(client: JsonClient, model: string, text: string): Promise<readonly number[] | null>
  generate(request: WireRequest): HttpCall
  /** Creates a reader for the events of one answer; call it once for each event, in order. */
  reader(request: WireRequest): (event: JsonObject) => Delta
  /**
   * Log-probs of given ids at temperature 1; null: not supported. `exclusive`: no other request may run at the same
   * time. `read` returns null if the response lacks a log-prob.
   */
  score: {
    exclusive: boolean
    call(request: WireScoreRequest): HttpCall
    read(body: JsonObject, request: WireScoreRequest): number[] | null
  } | null
  /**
   * Log-probs of given ids as the next token, of the distribution that a request with `temperature` and without filters
   * samples from; null: not supported. `read` returns one for each id; null if the response lacks one.
   */
  next: {
    call(request: WireNextRequest): HttpCall
    read(body: JsonObject, request: WireNextRequest): number[] | null
  } | null
  /** Null: not supported. */
  adapter: {
    /**
     * Returns the name for `WireRequest.adapter`. Loading an adapter that is already loaded is not an error. `folder`:
     * the adapter's PEFT folder. `files`: reads it, for a server that does not see the folder. Throws an Error with the
     * reason.
     */
    load(
      client: JsonClient,
      adapter: { name: string; sha256: string; folder: string; files: () => Promise<AdapterBytes> },
    ): Promise<string>
    unload(client: JsonClient, name: string): Promise<void>
    /** The names of all loaded adapters. Throws an Error if the engine does not list them. */
    list(client: JsonClient): Promise<string[]>
  } | null
  /**
   * Whether the response to `generate` means that the engine does not have the adapter. `body`: its text or message.
   */
  adapterUnknown(status: number, body: string): boolean
}

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as readonly unknown[]) : [])
export const numberOr = (value: unknown, fallback: number): number => (typeof value === 'number' ? value : fallback)
export const textOr = (value: unknown, fallback: string): string => (typeof value === 'string' ? value : fallback)
export const idsOf = (value: unknown): number[] | null =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id)) ? (value as number[]) : null

/** The `error` of an event or a body: a string, or an object with `message`, `code` and `param`. */
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

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** Reads the `usage` of OpenAI's interface; null if there is none, or its number of completion tokens is none. */
export const usageOf = (value: unknown): TokenCounts | null => {
  if (!isJsonObject(value) || !isCount(value['completion_tokens'])) return null
  const [prompt, completion] = [value['prompt_tokens_details'], value['completion_tokens_details']].map((details) =>
    isJsonObject(details) ? details : {},
  )
  const details = {
    cachedTokens: prompt!['cached_tokens'],
    cacheWriteTokens: prompt!['cache_write_tokens'],
    reasoningTokens: completion!['reasoning_tokens'],
  }
  const reported = Object.entries(details).filter((entry): entry is [string, number] => isCount(entry[1]))
  return {
    promptTokens: isCount(value['prompt_tokens']) ? value['prompt_tokens'] : 0,
    completionTokens: value['completion_tokens'],
    ...Object.fromEntries(reported),
  }
}

/**
 * The name of an adapter at an engine: 128 bits of its sha256. Only letters, digits and hyphens, since SGLang reads a
 * colon as the separator of base model and adapter.
 */
export const adapterName = (sha256: string): string => `instar-${sha256.slice(0, 32)}`

/** The adapters in `/v1/models`, as vLLM and SGLang list them: the models with a `parent`. */
export const listedAdapters = async (client: JsonClient): Promise<string[]> => {
  const models = await client.get('/v1/models')
  if (!models) throw new Error('/v1/models does not answer')
  return list(models['data'])
    .filter(isJsonObject)
    .flatMap(({ id, parent }) => (typeof id === 'string' && (parent ?? null) !== null ? [id] : []))
}
