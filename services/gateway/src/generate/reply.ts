/** Sends candidates as one response, whole or as a stream of server-sent events. */
import { InstarError } from '@instar/events'
import type { Choice, TokenCounts } from '@instar/dialects'
import type { Model } from '@instar/engine/port'
import { Cancelled, generateCandidate, type Result, type Sink, type Task } from './candidate.ts'
import type { AnswerPorts, AnswerReply, Prepared } from './context.ts'
import { EventStream } from './event-stream.ts'
import { faultOfCancellation } from './request.ts'

/** Generates all candidates. The first that fails cancels the others. */
const generateAll = async (
  ports: AnswerPorts,
  { controller, span, tasks, answerContext }: Prepared,
  { sinkOf, each }: { sinkOf: (index: number) => Sink | null; each: (result: Result, index: number) => Promise<void> },
): Promise<Result[]> => {
  const one = async (task: Task, index: number): Promise<Result> => {
    try {
      const result = await generateCandidate(ports, { ...task, sink: sinkOf(index) })
      ports.health.lost = null
      await each(result, index)
      return result
    } catch (error) {
      if (error instanceof InstarError && error.code === 'engine_lost') ports.health.lost = error.message
      controller.abort(new Cancelled('engine_failed'))
      throw error
    }
  }
  const results = tasks.length === 1 ? [await one(tasks[0]!, 0)] : await settled(tasks.map(one))
  span?.said(
    countsOf(answerContext, results),
    results.map(({ finish }) => finish),
  )
  const [first] = tasks
  if (first && first.admitted.candidates > tasks.length && results[0]?.trainable) ports.background.add(first)
  return results
}

/** Resolves when every candidate has settled. Of several errors, throws the one that cancelled the others. */
const settled = async (results: readonly Promise<Result>[]): Promise<Result[]> => {
  const outcomes = await Promise.allSettled(results)
  const faults = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
  if (faults.length > 0) throw faults.find((fault) => !(fault instanceof Cancelled)) ?? faults[0]
  return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
}

export const replyWhole = async (ports: AnswerPorts, turn: Prepared): Promise<AnswerReply> => {
  const { dialect, request, answerContext, replyHeaders: headers } = turn
  const results = await generateAll(ports, turn, { sinkOf: () => null, each: () => Promise.resolve() })
  const choices = results.map((result) => choiceOf(result, ports.model, request.stop))
  return { headers, body: dialect.whole(answerContext, request, choices, countsOf(answerContext, results)) }
}

export const replyAsStream = async (ports: AnswerPorts, turn: Prepared): Promise<null> => {
  const { dialect, request, answerContext } = turn
  turn.beforeStream?.()
  const events = new EventStream(turn.response, turn.replyHeaders, ports, dialect.ping)
  const streaming = dialect.stream(answerContext, request)
  const sinkOf =
    (index: number): Sink =>
    (piece, tokens, idOf) =>
      events.send(streaming.piece(index, piece, visible(tokens, ports.model), idOf))
  try {
    const results = await generateAll(ports, turn, {
      sinkOf,
      each: async (result, index) => {
        await events.send(streaming.finish(index, choiceOf(result, ports.model, request.stop)))
      },
    })
    events.done(streaming.end(countsOf(answerContext, results)))
  } catch (error) {
    if (!events.opened) {
      events.close()
      throw error
    }
    const fault = faultOfCancellation(error)
    turn.onFault(fault)
    events.done(streaming.fail(fault))
  }
  return null
}

/** Counts the prompt once for all candidates. */
const countsOf = (answerContext: Prepared['answerContext'], results: readonly Result[]): TokenCounts => {
  const { promptTokens = answerContext.promptTokens, cachedTokens, cacheWriteTokens } = results[0]?.counts ?? {}
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

/**
 * The stop string at the end of the sampled ids, of several the one that begins first. The shown text does not contain
 * it.
 */
const stopIn = (model: Model, ids: readonly number[], stops: readonly string[]): string | null => {
  if (stops.length === 0 || model.endOfTurn.includes(ids.at(-1) ?? -1)) return null
  const text = model.decode([...ids])
  return stops.filter((stop) => text.includes(stop)).sort((a, b) => text.indexOf(a) - text.indexOf(b))[0] ?? null
}

const visible = (tokens: Result['tokens'], model: Model): Result['tokens'] =>
  tokens.filter(({ id }) => !model.endOfTurn.includes(id))
