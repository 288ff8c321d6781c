/** A request in any dialect: admission, candidates, and the answer in one piece or as a stream. */
import { InstarError, turnId, type RecordedSampling } from '@instar/events'
import type { Model } from '@instar/engine/port'
import type { ServerResponse } from 'node:http'
import { parseJson, type Choice, type Counts, type Dialect, type Request, type Speaking } from '@instar/dialects'
import { headerText } from '../receive/core/header-text.ts'
import type { Headers } from '@instar/agents'
import { versionOf } from '../versions/core/model-name.ts'
import { carriedBy, clientOf, type Seen } from '../session/core/recent-requests.ts'
import { chatOf } from './core/chat-asked.ts'
import { optedOut, seedsOf, whyNotTrainable } from '../capture/core/turn.ts'
import { admit, hex, type AdmissionPorts } from '../prompt/admission.ts'
import { Cut, speak, type Result, type Sink, type Task } from './candidate.ts'
import { constrained } from './constrained.ts'
import { promptTokens } from '../prompt/counting.ts'
import { EventStream } from './event-stream.ts'
import type { Meter } from '../admin/metrics.ts'
import { resolveReferences } from '../session/references.ts'
import { cutFault, requesting, type RequestPorts } from './request.ts'
import { spanning, type RequestSpan } from '../admin/spans.ts'

export type AnswerPorts = AdmissionPorts &
  RequestPorts & {
    model: Model
    now: () => number
    learning: boolean
    pingMs: number
    stalledMs: number
    meter: Meter
    seen: Seen
    /** What the engine said when it was lost; null once it answers. */
    health: { lost: string | null }
  }

export type AnswerCall = {
  dialect: Dialect
  body: Uint8Array
  headers: Headers
  key: string | null
  /** False: the key's turns are captured, not learned from. */ mayTrain: boolean
  segment: string | null
  /** Rollouts of one prompt name it, so that those that were asked the same are one group. */ prompt?: string
  response: ServerResponse
  /** Aborted with what the client is told when its key is revoked. */ revoked: AbortSignal
  onFault: (fault: InstarError) => void
}

/** A whole answer; null where it went out as a stream. Throws InstarError while nothing has been sent. */
export type AnswerReply = { headers: Record<string, string>; body: unknown } | null

export const answer = (ports: AnswerPorts, call: AnswerCall): Promise<AnswerReply> =>
  spanning(call.headers, call.onFault, (span, onFault) => answerWithin(ports, { ...call, onFault }, span))

const answerWithin = async (ports: AnswerPorts, call: AnswerCall, span: RequestSpan | null): Promise<AnswerReply> => {
  const at = ports.now()
  const { dialect } = call
  const sent = parseJson(call.body)
  return requesting(ports, call, async ({ before, controller, enter }) => {
    const body = await before(resolveReferences(ports, dialect, call.key, sent))
    const request = dialect.request(body, ports.engine.capabilities().accepts)
    const version = versionOf(request.model, ports.policy)
    if (version === undefined)
      throw new InstarError(
        'model_not_found',
        `There is no model ${JSON.stringify(request.model?.slice(0, 100))} here; use ${JSON.stringify(ports.policy)} or ${JSON.stringify(`${ports.policy}@N`)}.`,
        { field: 'model' },
      )
    span?.asked(dialect.name, request.model ?? ports.policy, request)
    ports.capture.admit()
    const spoke = await enter(version)
    const raw = body === sent ? call.body : Buffer.from(JSON.stringify(body))
    const admission = await before(
      admit(ports, {
        dialect,
        request,
        raw,
        headers: call.headers,
        key: call.key,
        segment: call.segment,
        prompt: call.prompt,
        at,
      }),
    )
    const checking = constrained(ports.engine, dialect, request, admission.insideReasoning)
    const constraint = checking && (await before(checking))
    const stored = admission.blob === null ? Promise.resolve() : ports.capture.blob(admission.blob, at)
    // Awaited by each candidate; a rejection before that is not unhandled.
    stored.catch(() => undefined)
    const turns = Array.from({ length: request.n }, () => turnId(admission.facts.session, hex(ports.random(16))))
    for (const turn of turns) ports.reader.keepBody(turn, raw)
    const { session, kind, labelSource, userTurn, offPrefix } = admission.facts
    ports.seen.add({
      at,
      dialect: dialect.name,
      client: clientOf(call.headers),
      carried: carriedBy(call.headers, sent),
      session,
      labelSource,
      userTurn,
      kind,
      turn: turns[0]!,
      messages: request.messages.length,
      tools: request.tools.length,
      offPrefix,
    })
    span?.admitted({
      session,
      turns,
      kind,
      labelSource,
      version: spoke.version,
      model: `${ports.policy}@${spoke.version}`,
      promptTokens: admission.prompt.length,
    })
    const seeds = seedsOf(request, ports.random)
    const [sampling, mayLearn] = [
      samplingOf(request, ports.model, admission.prompt.length),
      {
        optedOut: !call.mayTrain || optedOut(call.headers),
        learning: ports.learning,
        contaminated: admission.contaminated,
      },
    ]
    const learnable =
      call.prompt === undefined &&
      whyNotTrainable({
        ...admission.facts,
        ...mayLearn,
        constrained: constraint !== null,
        reweighted: request.reweighting !== null,
        temperature: sampling.temperature,
        text: 'any',
      }) === null
    const candidates = request.n === 1 && learnable ? ports.background.wanted() : request.n
    const tasks = turns.map((turn, candidate): Task => ({
      admitted: { ...admission.facts, candidates, version: spoke.version, adapter: spoke.adapter },
      candidate: { turn, candidate, sampling: { ...sampling, seed: seeds[candidate]! } },
      prompt: admission.prompt,
      callPrefix: dialect.callPrefix,
      chat: ports.engine.capabilities().chat ? chatOf(dialect, request) : null,
      constraint,
      reweighting: request.reweighting,
      topLogprobs: request.logprobs ? request.topLogprobs : 0,
      parser: {
        tools: request.tools.length > 0 && request.mayCall,
        reasoning: admission.insideReasoning,
        oneCall: request.functions,
      },
      parent: candidate === 0 ? admission.parent : null,
      ...mayLearn,
      stored,
      sink: null,
      shown: true,
      signal: controller.signal,
      span,
    }))
    const answering: Answering = {
      ports,
      dialect,
      request,
      tasks,
      controller,
      span,
      response: call.response,
      onFault: call.onFault,
      speaking: {
        turn: turns[0]!,
        session: admission.facts.session,
        at,
        model: request.model ?? ports.policy,
        fingerprint: `instar-${ports.policy}@${spoke.version}`,
        sampling,
        textOf: (id) => ports.model.decode([id]),
        get promptTokens() {
          return promptTokens(ports.model, request, admission.prompt)
        },
      },
      headers: {
        'x-instar-version': String(spoke.version),
        'x-instar-turn-id': turns[0]!,
        'x-instar-session-id': admission.facts.session,
        ...(turns.length > 1 ? { 'x-instar-turn-ids': turns.join(',') } : {}),
        ...(request.ignored.length > 0 ? { 'x-instar-ignored': headerText(request.ignored.join(',')) } : {}),
        ...(request.dropped.length > 0 ? { 'x-instar-dropped-tools': headerText(request.dropped.join(',')) } : {}),
      },
    }
    return request.stream ? await stream(answering) : await whole(answering)
  })
}

type Answering = {
  ports: AnswerPorts
  dialect: Dialect
  request: Request
  tasks: readonly Task[]
  controller: AbortController
  span: RequestSpan | null
  response: ServerResponse
  /** Told of a fault that goes out inside a stream. */
  onFault: (fault: InstarError) => void
  speaking: Speaking
  headers: Record<string, string>
}

/** All candidates; the first that fails cuts the others. */
const speakAll = async (
  { ports, controller, speaking, span }: Answering,
  tasks: readonly Task[],
  each: (result: Result, index: number) => Promise<void>,
): Promise<Result[]> => {
  const one = async (task: Task, index: number): Promise<Result> => {
    try {
      const result = await speak(ports, task)
      ports.health.lost = null
      await each(result, index)
      return result
    } catch (error) {
      if (error instanceof InstarError && error.code === 'engine_lost') ports.health.lost = error.message
      controller.abort(new Cut('engine_failed'))
      throw error
    }
  }
  const results = tasks.length === 1 ? [await one(tasks[0]!, 0)] : await settled(tasks.map(one))
  span?.said(
    countsOf(speaking, results),
    results.map(({ finish }) => finish),
  )
  const [first] = tasks
  if (first && first.admitted.candidates > tasks.length && results[0]?.trainable) ports.background.add(first)
  return results
}

/** All results, when none is on its way any more; of several faults the one that cut the others. */
const settled = async (speaking: readonly Promise<Result>[]): Promise<Result[]> => {
  const outcomes = await Promise.allSettled(speaking)
  const faults = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
  if (faults.length > 0) throw faults.find((fault) => !(fault instanceof Cut)) ?? faults[0]
  return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
}

const whole = async (answering: Answering): Promise<AnswerReply> => {
  const { ports, dialect, request, speaking, headers } = answering
  const results = await speakAll(answering, answering.tasks, () => Promise.resolve())
  return {
    headers,
    body: dialect.whole(
      speaking,
      request,
      results.map((result) => choiceOf(result, ports.model, request.stop)),
      countsOf(speaking, results),
    ),
  }
}

const stream = async (answering: Answering): Promise<null> => {
  const { ports, dialect, request, speaking } = answering
  const events = new EventStream(answering.response, answering.headers, ports, dialect.ping)
  const streaming = dialect.stream(speaking, request)
  const sinkOf =
    (index: number): Sink =>
    (piece, tokens, idOf) =>
      events.send(streaming.piece(index, piece, visible(tokens, ports.model), idOf))
  try {
    const results = await speakAll(
      answering,
      answering.tasks.map((task, index) => ({ ...task, sink: sinkOf(index) })),
      async (result, index) => {
        await events.send(streaming.finish(index, choiceOf(result, ports.model, request.stop)))
      },
    )
    events.done(streaming.end(countsOf(speaking, results)))
  } catch (error) {
    if (!events.opened) {
      events.close()
      throw error
    }
    const fault = cutFault(error)
    answering.onFault(fault)
    events.done(streaming.fail(fault))
  }
  return null
}

/** The prompt is counted once for all candidates. */
const countsOf = (speaking: Speaking, results: readonly Result[]): Counts => {
  const { promptTokens = speaking.promptTokens, cachedTokens, cacheWriteTokens } = results[0]?.counts ?? {}
  return {
    promptTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(cacheWriteTokens === undefined ? {} : { cacheWriteTokens }),
    completionTokens: results.reduce((sum, { tokens, counts }) => sum + (counts?.completionTokens ?? tokens.length), 0),
    reasoningTokens: results.reduce((sum, { thought, counts }) => sum + (counts?.reasoningTokens ?? thought), 0),
  }
}

const choiceOf = ({ said, toolCallIds, finish, tokens }: Result, model: Model, stops: readonly string[]): Choice => ({
  shown: said.shown,
  toolCallIds,
  finish,
  stop: finish === 'stop' ? stopIn(model, said.ids, stops) : null,
  tokens: visible(tokens, model),
})

/** The stop string that the sampled ids end in, of several the one that begins first. It is not in the text that is shown. */
const stopIn = (model: Model, ids: readonly number[], stops: readonly string[]): string | null => {
  if (stops.length === 0 || model.endOfTurn.includes(ids.at(-1) ?? -1)) return null
  const text = model.decode([...ids])
  return stops.filter((stop) => text.includes(stop)).sort((a, b) => text.indexOf(a) - text.indexOf(b))[0] ?? null
}

const visible = (tokens: Result['tokens'], model: Model): Result['tokens'] =>
  tokens.filter(({ id }) => !model.endOfTurn.includes(id))

const samplingOf = (request: Request, model: Model, promptTokens: number): Omit<RecordedSampling, 'seed'> => ({
  temperature: request.temperature ?? model.defaults.temperature,
  topP: request.topP ?? model.defaults.topP,
  topK: Math.max(0, request.topK ?? model.defaults.topK),
  maxTokens: Math.min(request.maxTokens ?? Infinity, model.contextLength - promptTokens),
  stop: [...request.stop],
})
