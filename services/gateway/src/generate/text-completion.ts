/**
 * `/v1/completions` for an engine that takes token ids. A completion is not a turn: it has no next state and no
 * feedback, so nothing is written to the log.
 */
import { chatError, parseJson, streamMessage, type Frame } from '@instar/dialects'
import { InstarError } from '@instar/events'
import type { GeneratedToken } from '@instar/engine/port'
import { setImmediate as nextPass } from 'node:timers/promises'
import {
  completionLogprobs,
  completionRequest,
  completionUsage,
  MOST_COMPLETION_LOGPROBS,
  pieceBytes,
  type CompletionChoice,
  type CompletionHead,
  type CompletionRequest,
  type ScoredToken,
} from './core/text-completion.ts'
import { versionOf } from '../versions/core/model-name.ts'
import { seedsOf } from '../capture/core/turn.ts'
import { hex } from './random.ts'
import type { AnswerCall, AnswerPorts, AnswerReply } from './context.ts'
import { Cancelled } from './candidate.ts'
import { completionJson } from './completion-json.ts'
import { checkSize, echo, echoedTexts, encoded } from './completion-prompts.ts'
import { EventStream } from './event-stream.ts'
import type { Lease } from '../versions/pool.ts'
import { faultOfCancellation, requesting, type RequestPorts } from './request.ts'

export type CompletionCall = Pick<AnswerCall, 'body' | 'response' | 'revoked' | 'onFault' | 'hold'>
type Ports = RequestPorts & Pick<AnswerPorts, 'model' | 'policy' | 'now' | 'random' | 'pingMs' | 'stalledMs'>

/** How many choices of one request are sampled at a time. */
const AT_ONCE = 8

/** Of prompts that are echoed with log-probs, as many as one request may hold them of. */
const atOnce = ({ echo, logprobs }: CompletionRequest, asked: readonly ChoiceTask[]): number => {
  if (!echo || logprobs === null) return AT_ONCE
  const longest = asked.reduce((most, { prompt }) => Math.max(most, prompt.length), 1)
  return Math.max(1, Math.min(AT_ONCE, Math.floor(MOST_COMPLETION_LOGPROBS / ((1 + logprobs) * longest))))
}

/** One prompt with one seed. `echoed`: the prompt's text, null unless it is echoed. */
type ChoiceTask = { index: number; prompt: readonly number[]; echoed: string | null; seed: number }
type CompletionContext = {
  ports: Ports
  request: CompletionRequest
  lease: Lease
  head: CompletionHead
  controller: AbortController
  hold: (bytes: number) => void
}
type Sink = (choice: CompletionChoice) => Promise<void>

export const complete = async (ports: Ports, call: CompletionCall): Promise<AnswerReply> => {
  const request = completionRequest(parseJson(call.body))
  const version = versionOf(request.model, ports.policy)
  if (version === undefined)
    throw new InstarError(
      'model_not_found',
      `There is no model ${JSON.stringify(request.model?.slice(0, 100))} here; use ${JSON.stringify(ports.policy)}.`,
      { field: 'model' },
    )
  const { engine, chat } = ports.engine.capabilities()
  if (chat)
    throw new InstarError('not_available', `The engine ${engine} takes messages alone; ask /v1/chat/completions.`)
  if (request.echo && request.logprobs !== null && !ports.engine.scoreWithTop)
    throw new InstarError('not_available', `The engine ${engine} gives no log-probs of a prompt's tokens.`)
  return requesting(ports, call, async ({ controller, takePlace, enter }) => {
    const { signal } = controller
    takePlace()
    const prompts = await encoded(request, ports.model, signal)
    checkSize(prompts, request, ports.model)
    const lease = await enter(version)
    const texts = request.echo ? await echoedTexts(prompts, ports.model, { hold: call.hold, signal }) : []
    const seeds = seedsOf(request, ports.random)
    const asked = prompts.flatMap((prompt, at) =>
      seeds.map((seed, i): ChoiceTask => ({ index: at * request.n + i, prompt, echoed: texts[at] ?? null, seed })),
    )
    const head: CompletionHead = {
      id: `cmpl-${hex(ports.random(12))}`,
      object: 'text_completion',
      created: Math.floor(ports.now() / 1000),
      model: request.model ?? ports.policy,
      system_fingerprint: `instar-${ports.policy}@${lease.version}`,
    }
    const context: CompletionContext = { ports, request, lease, head, controller, hold: call.hold }
    const headers = { 'x-instar-version': String(lease.version) }
    const promptTokens = prompts.reduce((sum, { length }) => sum + length, 0)
    return request.stream
      ? await stream(context, asked, promptTokens, headers, call)
      : await whole(context, asked, promptTokens, headers)
  })
}

/**
 * Samples all choices, a few at a time, in order; other requests are served between two. Returns the number of generated
 * tokens.
 */
const sampleAll = async (
  context: CompletionContext,
  asked: readonly ChoiceTask[],
  sinkOf: (index: number) => Sink,
): Promise<number> => {
  let next = 0
  let tokens = 0
  const work = async (): Promise<void> => {
    for (let one = asked[next++]; one; one = asked[next++]) {
      tokens += await sampleChoice(context, one, sinkOf(one.index))
      await nextPass()
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce(context.request, asked), asked.length) }, work))
  return tokens
}

const sampleChoice = async (
  { ports: { engine, model }, request, lease, controller: { signal }, hold }: CompletionContext,
  { index, prompt, echoed, seed }: ChoiceTask,
  sink: Sink,
): Promise<number> => {
  const { maxTokens, logprobs, stop, reweighting } = request
  const { adapter } = lease
  const textOf = (id: number): string => model.decode([id])
  let offset = 0
  const emit = async (
    text: string,
    tokens: readonly ScoredToken[],
    finish: CompletionChoice['finish_reason'] = null,
    from = offset,
  ): Promise<CompletionChoice['logprobs']> => {
    signal.throwIfAborted()
    const scores = logprobs === null ? null : completionLogprobs(tokens, from, textOf)
    await sink({ text, index, logprobs: scores, finish_reason: finish })
    offset += text.length
    return scores
  }
  if (echoed !== null) {
    // Texts of single tokens may be longer together than the text of all.
    let from = 0
    await echo(engine, { prompt, echoed, adapter, logprobs }, { hold, signal }, async (text, tokens, last) => {
      const scores = await emit(text, tokens, last && maxTokens === 0 ? 'length' : null, from)
      from += (scores?.tokens ?? []).reduce((sum, { length }) => sum + length, 0)
    })
  }
  if (maxTokens === 0) return 0
  const { temperature, topP, topK } = model.defaults
  const sampling = {
    temperature: request.temperature ?? temperature,
    topP: request.topP ?? topP,
    topK: Math.max(0, request.topK ?? topK),
    seed,
    maxTokens: Math.min(maxTokens, model.contextLength - prompt.length),
    stop,
  }
  let count = 0
  for await (const piece of engine.generate(
    { prompt, sampling, adapter, topLogprobs: logprobs ?? 0, hold, ...(reweighting ? { reweighting } : {}) },
    signal,
  )) {
    if (piece.type === 'tokens') {
      count += piece.tokens.length
      await emit(piece.tokens.map(({ text }) => text).join(''), piece.tokens.map(scored))
    } else await emit(piece.text, [], piece.type === 'end' ? piece.reason : null)
  }
  return count
}

const scored = ({ id, logprob, top, unreported }: GeneratedToken): ScoredToken => ({
  id,
  logprob: unreported ? null : logprob,
  top,
})

const whole = async (
  context: CompletionContext,
  asked: readonly ChoiceTask[],
  promptTokens: number,
  headers: Record<string, string>,
): Promise<AnswerReply> => {
  const pieces = asked.map((): CompletionChoice[] => [])
  const tokens = await sampleAll(context, asked, (index) => async (choice) => {
    context.hold(pieceBytes(choice))
    pieces[index]!.push(choice)
  })
  const usage = completionUsage(promptTokens, tokens)
  const body = await completionJson({ head: context.head, choices: pieces, usage }, context.controller.signal)
  return { headers: { ...headers, 'content-type': 'application/json; charset=utf-8' }, body }
}

const stream = async (
  context: CompletionContext,
  asked: readonly ChoiceTask[],
  promptTokens: number,
  headers: Record<string, string>,
  call: CompletionCall,
): Promise<null> => {
  const { ports, request, head } = context
  const events = new EventStream(call.response, headers, ports, null)
  const frame = (rest: object): Frame => ({ data: { ...head, ...rest } })
  try {
    const tokens = await sampleAll(context, asked, () => async (choice) => {
      if (!(await events.send([frame({ choices: [choice], ...(request.includeUsage ? { usage: null } : {}) })])))
        throw new Cancelled('client_gone')
    })
    events.done([
      ...(request.includeUsage ? [frame({ choices: [], usage: completionUsage(promptTokens, tokens) })] : []),
      { data: '[DONE]' },
    ])
  } catch (error) {
    // The other choices end, too.
    context.controller.abort(new Cancelled('engine_failed'))
    if (!events.opened) {
      events.close()
      throw error
    }
    const fault = faultOfCancellation(error)
    call.onFault(fault)
    events.done([{ data: chatError(fault, streamMessage(fault)) }, { data: '[DONE]' }])
  }
  return null
}
