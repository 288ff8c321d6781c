/** Requests to one replica, and the probe that measures its capabilities before the first request. */
import { InstarError } from '@instar/events'
import type { Hold, Model } from '../port.ts'
import { includedSteps, PROBE_TEMPERATURE, type LogprobSteps, type LogprobsByToken } from '../protocols/exactness.ts'
import {
  isEmpty,
  type WireRequest,
  type Delta,
  type Identity,
  type Protocol,
  type WireError,
  type WireToken,
} from '../protocols/wire.ts'
import { EMPTY_EVENTS_MAX, JSON_LIMITS, WHOLE_ANSWER_BYTES_MAX } from '../protocols/answer-limits.ts'
import { joinTexts } from '../protocols/join-texts.ts'
import { EventReader } from './event-reader.ts'
import { eventOf, Held } from './held.ts'
import { scoreOf } from './logprobs.ts'
import { beginningOf, EngineFault, collect, type EngineHttp, type HttpResponse } from './http.ts'
import { isTransient, quoted, refusal } from '../protocols/faults.ts'

/**
 * `logprobs`: the sampling steps that its log-probs include. `grammar`: it enforces grammars. `base`: log-probs of the
 * base model for the probe text, measured twice; null without adapters.
 */
export type ReplicaInfo = Identity & {
  logprobs: LogprobSteps
  grammar: boolean
  base: { first: LogprobsByToken; second: LogprobsByToken } | null
}

/** Code and prose, so that the log-probs of any model vary over the text. */
const PROBE_TEXT =
  'The quick brown fox jumps over the lazy dog. def add(a, b):\n    return a + b\nQ: What is the capital of France? A: Paris, of course; and of Italy it is Rome.'
const PROBE_IDS = 48
/** Number of most likely tokens that are compared to detect a temperature or an adapter. */
const TOP_LOGPROBS = 5
/** Positions in the probe text, as fractions of its length. */
const POSITIONS = [0.25, 0.5, 0.75, 1]

/** An incomplete event as text and in the parser. */
const EVENT_COPIES = 2

/** Text that no model generates after the probe text unless a grammar forces it. */
const UNLIKELY = '}{'

/** How long the end of a response is awaited after `[DONE]`, in milliseconds, so that its connection can be reused. */
const DRAIN_MS = 1000

const probeText = (model: Model): { prompt: number[]; completion: number[] } => {
  const ids = model.encode(PROBE_TEXT).slice(0, PROBE_IDS)
  return { prompt: ids.slice(0, 2), completion: ids.slice(2) }
}

/** Sends a request and returns the body of a 200. Throws EngineFault if a retry may succeed, else InstarError. */
const post = async (
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal: AbortSignal | undefined,
  limits: Parameters<EngineHttp['send']>[4],
): Promise<HttpResponse['bytes']> => {
  const { path, body } = protocol.generate(request)
  const { status, retryAfterMs, bytes } = await http.send('POST', path, body, signal, limits)
  if (status === 200) return bytes
  const text = await beginningOf(bytes)
  if (isTransient(status) || (request.adapter !== null && protocol.adapterUnknown(status, text)))
    throw new EngineFault('status', quoted(text), status, retryAfterMs)
  throw refusal(protocol.kind, status, text)
}

/** The delta of an answer that is not streamed. `hold` counts the response until then. Throws as `deltas` does. */
export const wholeDelta = async (
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal?: AbortSignal,
  hold?: Hold,
): Promise<Delta> => {
  const [reading, parsed] = [new Held(hold), new Held(hold)]
  try {
    const bytes = await post(http, protocol, request, signal, { whole: true, hold })
    const whole = await collect(bytes, WHOLE_ANSWER_BYTES_MAX, reading)
    const delta = protocol.reader(request)(eventOf(whole, JSON_LIMITS, parsed))
    if (delta.error) throw faultOf(protocol, request, delta.error)
    return delta
  } finally {
    reading.set(0)
    parsed.set(0)
  }
}

/**
 * The deltas of one streamed answer. `ms`: time limit for the whole answer; default: none. `hold` counts what was read of an
 * event, and an event until its delta was taken. Throws EngineFault if a retry may succeed, else InstarError, and as `hold`.
 */
export async function* deltas(
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal?: AbortSignal,
  { ms, hold }: { ms?: number; hold?: Hold | undefined } = {},
): AsyncGenerator<Delta> {
  const bytes = await post(http, protocol, request, signal, { ms, hold })
  const read = protocol.reader(request)
  const events = new EventReader()
  const [reading, parsed] = [new Held(hold), new Held(hold)]
  let done = false
  let empty = 0
  try {
    for (let next = await bytes.next(); !next.done && !done; next = done ? next : await bytes.next()) {
      const received: Delta[] = []
      reading.set(EVENT_COPIES * (events.pending + next.value.length))
      for (const data of events.push(next.value)) {
        done = data === '[DONE]'
        if (done) break
        try {
          const delta = read(eventOf(data, JSON_LIMITS, parsed))
          if (delta.error) throw faultOf(protocol, request, delta.error)
          empty = isEmpty(delta) ? empty + 1 : 0
          if (empty > EMPTY_EVENTS_MAX)
            throw new EngineFault('response', `more than ${EMPTY_EVENTS_MAX} events are no part of an answer`)
          received.push(delta)
        } catch (error) {
          yield* joinTexts(received)
          throw error
        }
      }
      yield* joinTexts(received)
      parsed.set(0)
    }
  } finally {
    reading.set(0)
    parsed.set(0)
    if (done) bytes.drain(DRAIN_MS)
    else await bytes.return()
  }
}

const faultOf = (protocol: Protocol, { adapter }: WireRequest, { message, status }: WireError): Error => {
  const final = status >= 400 && !isTransient(status) && !(adapter !== null && protocol.adapterUnknown(status, message))
  return final ? refusal(protocol.kind, status, quoted(message)) : new EngineFault('response', quoted(message), status)
}

const tokensOf = async (http: EngineHttp, protocol: Protocol, request: WireRequest): Promise<WireToken[]> => {
  const tokens: WireToken[] = []
  for await (const delta of deltas(http, protocol, request, undefined, { ms: http.jsonMs }))
    tokens.push(...delta.tokens)
  return tokens
}

/**
 * Log-probs that distinguish an adapter from the base model: of the probe text's tokens, or of the most likely tokens
 * at POSITIONS if the engine cannot score tokens while other requests run.
 */
export const probeScores = async (
  http: EngineHttp,
  protocol: Protocol,
  model: Model,
  name: string,
  adapter: string | null,
): Promise<LogprobsByToken> => {
  const { prompt, completion } = probeText(model)
  if (protocol.score && !protocol.score.exclusive) {
    const request = await scoreOf(http, protocol, { model: name, adapter, prompt, completion })
    return new Map(request.map((logprob, at) => [`${at}:${completion[at]}`, logprob]))
  }
  const text = [...prompt, ...completion]
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] }
  const logprobs = new Map<string, number>()
  for (const end of POSITIONS.map((share) => Math.ceil(share * text.length))) {
    const [token] = await tokensOf(http, protocol, {
      model: name,
      adapter,
      prompt: text.slice(0, end),
      sampling,
      topLogprobs: TOP_LOGPROBS,
      endOfTurn: [],
      chat: null,
    })
    for (const { id, logprob } of token?.top ?? []) logprobs.set(`${end}:${id}`, logprob)
  }
  return logprobs
}

const logprobsIn = ({ top }: WireToken): number[] => top.map(({ logprob }) => logprob)

/**
 * `servedName`: the name of the base model at the server; null: the first that it lists. Throws EngineFault if the
 * server does not answer, `engine_mismatch` if its tokenizer is not that of `model` or it reports no token ids.
 */
export const probe = async (
  http: EngineHttp,
  protocol: Protocol,
  model: Model,
  servedName: string | null,
): Promise<ReplicaInfo> => {
  const client = http.client()
  const identity = await protocol.identify(client, servedName).catch((error: unknown) => {
    if (error instanceof EngineFault || error instanceof InstarError) throw error
    throw new EngineFault('response', `${http.url}: ${(error as Error).message}`, 0, null, { cause: error })
  })
  if (!protocol.ids)
    return { ...identity, logprobs: { temperature: false, filters: false }, grammar: false, base: null }
  const { prompt, completion } = probeText(model)
  const engineIds = await protocol.tokenize(client, identity.model, PROBE_TEXT)
  const modelIds = model.encode(PROBE_TEXT)
  if (engineIds && (engineIds.length !== modelIds.length || engineIds.some((id, at) => id !== modelIds[at]))) {
    throw new InstarError(
      'engine_mismatch',
      `${http.url} serves ${identity.model}, whose tokenizer is not that of ${model.name}. Set INSTAR_MODEL to the folder of the served model.`,
      { field: 'INSTAR_MODEL' },
    )
  }
  const common = { model: identity.model, adapter: null, prompt: [...prompt, ...completion], endOfTurn: [], chat: null }
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] }
  const sampleOne = async (other: Partial<typeof sampling>, topLogprobs: number): Promise<WireToken | undefined> =>
    (await tokensOf(http, protocol, { ...common, topLogprobs, sampling: { ...sampling, ...other } }))[0]
  const unscaled = await sampleOne({}, TOP_LOGPROBS)
  const scaled = await sampleOne({ temperature: PROBE_TEMPERATURE }, TOP_LOGPROBS)
  const top1 = await sampleOne({ topK: 1 }, 0)
  if (!unscaled || !scaled)
    throw new InstarError(
      'engine_mismatch',
      `${http.url} returned no token ids: it is not ${protocol.kind}, or a version that is not supported.`,
      { field: 'INSTAR_ENGINE' },
    )
  const constrained = await tokensOf(http, protocol, {
    ...common,
    topLogprobs: 0,
    sampling,
    grammar: `root ::= "${UNLIKELY}"`,
  }).catch((error: unknown): WireToken[] => {
    if (error instanceof InstarError && error.code === 'engine_refused') return []
    throw error
  })
  const grammar = constrained.length > 0 && UNLIKELY.startsWith(model.decode(constrained.map(({ id }) => id)))
  const score = (): Promise<LogprobsByToken> => probeScores(http, protocol, model, identity.model, null)
  const baseScores = identity.adapterFault === null ? { first: await score(), second: await score() } : null
  return {
    ...identity,
    logprobs: includedSteps(logprobsIn(unscaled), logprobsIn(scaled), top1?.logprob ?? Number.NaN),
    grammar,
    base: baseScores,
  }
}
