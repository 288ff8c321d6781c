/** Requests to one replica, and the probe that finds out what it can do before it gets any. */
import { InstarError } from '@instar/events'
import type { Model } from '../port.ts'
import { logprobsOf, WARM, type Logprobs, type LogprobsByToken } from '../protocols/exactness.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import {
  errorOf,
  type WireRequest,
  type Delta,
  type Identity,
  type Protocol,
  type WireError,
  type WireToken,
} from '../protocols/wire.ts'
import { EventReader } from '../protocols/sse.ts'
import { joinTexts } from '../protocols/join-texts.ts'
import { EngineFault, collect, type EngineHttp, type Exchange } from './http.ts'
import { isTransient, quoted, refusal } from '../protocols/faults.ts'

/** `base`: log-probs of the base model for the check text, measured twice; null without adapters. `grammar`: it enforces grammars. */
export type ReplicaInfo = Identity & {
  logprobs: Logprobs
  grammar: boolean
  base: { first: LogprobsByToken; again: LogprobsByToken } | null
}

/** Code and prose, so that the log-probs of any model vary over it. */
const CHECK_TEXT =
  'The quick brown fox jumps over the lazy dog. def add(a, b):\n    return a + b\nQ: What is the capital of France? A: Paris, of course; and of Italy it is Rome.'
const CHECK_IDS = 48
/** Number of most likely tokens that are compared to recognise a temperature or an adapter. */
const TOPS = 5
/** Positions in the check text, as shares of its length. */
const PLACES = [0.25, 0.5, 0.75, 1]

/** Text that no model generates after the check text unless a grammar demands it. */
const UNLIKELY = '}{'

const checkText = (model: Model): { prompt: number[]; completion: number[] } => {
  const ids = model.encode(CHECK_TEXT).slice(0, CHECK_IDS)
  return { prompt: ids.slice(0, 2), completion: ids.slice(2) }
}

/** Sends a request and returns the body of a 200. Throws EngineFault where a retry may help, else InstarError. */
const post = async (
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal: AbortSignal | undefined,
  whole: boolean,
): Promise<Exchange['bytes']> => {
  const { path, body } = protocol.generate(request)
  const { status, retryAfterMs, bytes } = await http.send('POST', path, body, signal, { whole })
  if (status === 200) return bytes
  const said = await collect(bytes)
  if (isTransient(status) || (request.adapter !== null && protocol.adapterUnknown(status, said)))
    throw new EngineFault('status', quoted(said), status, retryAfterMs)
  throw refusal(protocol.kind, status, said)
}

/** An answer that is not streamed. Throws as `deltas` does. */
export const wholeDelta = async (
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal?: AbortSignal,
): Promise<Delta> => {
  const delta = protocol.reader(request)(eventOf(await collect(await post(http, protocol, request, signal, true))))
  if (delta.error) throw faultOf(protocol, request, delta.error)
  return delta
}

/** The deltas of one streamed answer. Throws EngineFault where a retry may help, else InstarError. */
export async function* deltas(
  http: EngineHttp,
  protocol: Protocol,
  request: WireRequest,
  signal?: AbortSignal,
): AsyncGenerator<Delta> {
  const bytes = await post(http, protocol, request, signal, false)
  const read = protocol.reader(request)
  const events = new EventReader()
  let done = false
  for await (const some of bytes) {
    const arrived: Delta[] = []
    for (const data of events.push(some)) {
      // The stream is read to its end, so that the connection can be reused.
      done ||= data === '[DONE]'
      if (done) continue
      try {
        const delta = read(eventOf(data))
        if (delta.error) throw faultOf(protocol, request, delta.error)
        arrived.push(delta)
      } catch (error) {
        yield* joinTexts(arrived)
        throw error
      }
    }
    yield* joinTexts(arrived)
  }
}

const faultOf = (protocol: Protocol, { adapter }: WireRequest, { message, status }: WireError): Error => {
  const final = status >= 400 && !isTransient(status) && !(adapter !== null && protocol.adapterUnknown(status, message))
  return final ? refusal(protocol.kind, status, quoted(message)) : new EngineFault('said', quoted(message), status)
}

const eventOf = (data: string): JsonObject => {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch (cause) {
    throw new EngineFault('said', 'an event that is not JSON', 0, null, { cause })
  }
  if (!isJsonObject(event)) throw new EngineFault('said', 'an event that is no object')
  return event
}

const tokensOf = async (http: EngineHttp, protocol: Protocol, request: WireRequest): Promise<WireToken[]> => {
  const tokens: WireToken[] = []
  for await (const delta of deltas(http, protocol, request)) tokens.push(...delta.tokens)
  return tokens
}

export const scoreOf = async (
  http: EngineHttp,
  protocol: Protocol,
  given: { model: string; adapter: string | null; prompt: readonly number[]; completion: readonly number[] },
  signal?: AbortSignal,
): Promise<number[]> => {
  if (!protocol.score) throw new InstarError('not_available', `${protocol.kind} gives no log-probs of given tokens.`)
  const { path, body } = protocol.score.call(given)
  const answer = await http.json('POST', path, body, signal)
  const logprobs = answer.status === 200 && answer.body ? protocol.score.read(answer.body, given) : null
  if (logprobs) return logprobs
  if (isTransient(answer.status)) throw new EngineFault('status', quoted(answer.text), answer.status)
  throw refusal(protocol.kind, answer.status, quoted((answer.body && errorOf(answer.body)?.message) ?? answer.text))
}

/** Log-probs that distinguish an adapter from the base model: of the check text's tokens, or of the most likely tokens at PLACES. */
export const checkScores = async (
  http: EngineHttp,
  protocol: Protocol,
  model: Model,
  name: string,
  adapter: string | null,
): Promise<LogprobsByToken> => {
  const { prompt, completion } = checkText(model)
  if (protocol.score && !protocol.score.exclusive) {
    const given = await scoreOf(http, protocol, { model: name, adapter, prompt, completion })
    return new Map(given.map((logprob, at) => [`${at}:${completion[at]}`, logprob]))
  }
  const text = [...prompt, ...completion]
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] }
  const logprobs = new Map<string, number>()
  for (const end of PLACES.map((share) => Math.ceil(share * text.length))) {
    const [token] = await tokensOf(http, protocol, {
      model: name,
      adapter,
      prompt: text.slice(0, end),
      sampling,
      topLogprobs: TOPS,
      endOfTurn: [],
      chat: null,
    })
    for (const { id, logprob } of token?.top ?? []) logprobs.set(`${end}:${id}`, logprob)
  }
  return logprobs
}

const logprobsIn = ({ top }: WireToken): number[] => top.map(({ logprob }) => logprob)

/** Throws EngineFault while the server does not answer, `engine_mismatch` if it serves another model or no token ids. */
export const probe = async (
  http: EngineHttp,
  protocol: Protocol,
  model: Model,
  named: string | null,
): Promise<ReplicaInfo> => {
  const client = http.client()
  const identity = await protocol.identify(client, named).catch((error: unknown) => {
    if (error instanceof EngineFault || error instanceof InstarError) throw error
    throw new EngineFault('said', `${http.url}: ${(error as Error).message}`, 0, null, { cause: error })
  })
  if (!protocol.ids)
    return { ...identity, logprobs: { temperature: false, filters: false }, grammar: false, base: null }
  const { prompt, completion } = checkText(model)
  const theirs = await protocol.tokenize(client, identity.model, CHECK_TEXT)
  const ours = model.encode(CHECK_TEXT)
  if (theirs && (theirs.length !== ours.length || theirs.some((id, at) => id !== ours[at]))) {
    throw new InstarError(
      'engine_mismatch',
      `${http.url} serves ${identity.model}, whose tokenizer is not that of ${model.name}.`,
      { field: 'INSTAR_MODEL' },
    )
  }
  const one = { model: identity.model, adapter: null, prompt: [...prompt, ...completion], endOfTurn: [], chat: null }
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] }
  const first = async (other: Partial<typeof sampling>, topLogprobs: number): Promise<WireToken | undefined> =>
    (await tokensOf(http, protocol, { ...one, topLogprobs, sampling: { ...sampling, ...other } }))[0]
  const plain = await first({}, TOPS)
  const warm = await first({ temperature: WARM }, TOPS)
  const only = await first({ topK: 1 }, 0)
  if (!plain || !warm)
    throw new InstarError(
      'engine_mismatch',
      `${http.url} gives no token ids: ${protocol.kind} of this version is not what is spoken here, or it is another program.`,
      { field: 'INSTAR_ENGINE' },
    )
  const held = await tokensOf(http, protocol, {
    ...one,
    topLogprobs: 0,
    sampling,
    grammar: `root ::= "${UNLIKELY}"`,
  }).catch((error: unknown): WireToken[] => {
    if (error instanceof InstarError && error.code === 'engine_refused') return []
    throw error
  })
  const grammar = held.length > 0 && UNLIKELY.startsWith(model.decode(held.map(({ id }) => id)))
  const score = (): Promise<LogprobsByToken> => checkScores(http, protocol, model, identity.model, null)
  const base = identity.adapterFault === null ? { first: await score(), again: await score() } : null
  return {
    ...identity,
    logprobs: logprobsOf(logprobsIn(plain), logprobsIn(warm), only?.logprob ?? Number.NaN),
    grammar,
    base,
  }
}
