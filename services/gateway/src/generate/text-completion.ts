/**
 * `/v1/completions` for an engine that takes token ids. A completion is not a turn: it has no next state and no
 * feedback, so nothing is written to the log.
 */
import { chatError, parseJson, toldInStream, type Frame } from '@instar/dialects'
import { InstarError } from '@instar/events'
import type { GeneratedToken } from '@instar/engine/port'
import {
  completionLogprobs,
  completionRequest,
  completionUsage,
  type CompletionChoice,
  type CompletionHead,
  type CompletionRequest,
  type Said,
} from './core/text-completion.ts'
import { versionOf } from '../versions/core/model-name.ts'
import { seedsOf } from '../capture/core/turn.ts'
import { hex } from '../prompt/admission.ts'
import type { AnswerCall, AnswerPorts, AnswerReply } from './context.ts'
import { Cancelled } from './candidate.ts'
import { checkLogprobs, encoded } from './completion-prompts.ts'
import { EventStream } from './event-stream.ts'
import type { Lease } from '../versions/pool.ts'
import { faultOfCancellation, requesting, type RequestPorts } from './request.ts'

export type CompletionCall = Pick<AnswerCall, 'body' | 'response' | 'revoked' | 'onFault'>
type Ports = RequestPorts & Pick<AnswerPorts, 'model' | 'policy' | 'now' | 'random' | 'pingMs' | 'stalledMs'>

/** How many choices of one request are sampled at a time. */
const AT_ONCE = 8

/** One prompt with one seed. */
type Asked = { index: number; prompt: readonly number[]; seed: number }
type Speaking = { ports: Ports; request: CompletionRequest; lease: Lease; head: CompletionHead; signal: AbortSignal }
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
  const prompts = await encoded(request, ports.model)
  checkLogprobs(prompts, request, ports.model)
  return requesting(ports, call, async ({ controller, enter }) => {
    const lease = await enter(version)
    const seeds = seedsOf(request, ports.random)
    const asked = prompts.flatMap((prompt, at) =>
      seeds.map((seed, i): Asked => ({ index: at * request.n + i, prompt, seed })),
    )
    const head: CompletionHead = {
      id: `cmpl-${hex(ports.random(12))}`,
      object: 'text_completion',
      created: Math.floor(ports.now() / 1000),
      model: request.model ?? ports.policy,
      system_fingerprint: `instar-${ports.policy}@${lease.version}`,
    }
    const speaking: Speaking = { ports, request, lease, head, signal: controller.signal }
    const headers = { 'x-instar-version': String(lease.version) }
    const promptTokens = prompts.reduce((sum, { length }) => sum + length, 0)
    return request.stream
      ? await stream(speaking, asked, promptTokens, headers, call)
      : await whole(speaking, asked, promptTokens, headers)
  })
}

/** Samples all choices, a few at a time, in order. Returns the number of generated tokens. */
const all = async (speaking: Speaking, asked: readonly Asked[], sinkOf: (index: number) => Sink): Promise<number> => {
  let next = 0
  let tokens = 0
  const work = async (): Promise<void> => {
    for (let one = asked[next++]; one; one = asked[next++]) tokens += await speak(speaking, one, sinkOf(one.index))
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, asked.length) }, work))
  return tokens
}

const speak = async (
  { ports: { engine, model }, request, lease, signal }: Speaking,
  { index, prompt, seed }: Asked,
  sink: Sink,
): Promise<number> => {
  const { maxTokens, logprobs, echo, stop, reweighting } = request
  const textOf = (id: number): string => model.decode([id])
  const logprobsOf = (tokens: readonly Said[], offset: number): CompletionChoice['logprobs'] =>
    logprobs === null ? null : completionLogprobs(tokens, offset, textOf)
  let offset = 0
  const say = async (
    text: string,
    tokens: readonly Said[],
    finish: CompletionChoice['finish_reason'] = null,
  ): Promise<void> => {
    signal.throwIfAborted()
    await sink({ text, index, logprobs: logprobsOf(tokens, offset), finish_reason: finish })
    offset += text.length
  }
  if (echo)
    await say(
      model.decode([...prompt]),
      logprobs === null ? [] : await given(engine, prompt, lease.adapter, logprobs),
      maxTokens === 0 ? 'length' : null,
    )
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
    { prompt, sampling, adapter: lease.adapter, topLogprobs: logprobs ?? 0, ...(reweighting ? { reweighting } : {}) },
    signal,
  )) {
    if (piece.type === 'tokens') {
      count += piece.tokens.length
      await say(piece.tokens.map(({ text }) => text).join(''), piece.tokens.map(drawn))
    } else await say(piece.text, [], piece.type === 'end' ? piece.reason : null)
  }
  return count
}

const drawn = ({ id, logprob, top }: GeneratedToken): Said => ({ id, logprob, top })

/** The prompt's tokens with their log-probs; the first has none. */
const given = async (
  engine: Ports['engine'],
  prompt: readonly number[],
  adapter: string | null,
  topLogprobs: number,
): Promise<Said[]> => {
  const rest = prompt.slice(1)
  const { logprobs, top } = await engine.scoreWithTop!({
    prompt: prompt.slice(0, 1),
    completion: rest,
    adapter,
    temperature: 1,
    topLogprobs,
  })
  return [
    { id: prompt[0]!, logprob: null, top: [] },
    ...rest.map((id, at) => ({ id, logprob: logprobs[at]!, top: top[at] ?? [] })),
  ]
}

const joined = (pieces: readonly CompletionChoice[]): CompletionChoice => {
  const last = pieces.at(-1)!
  const logprobs = pieces.flatMap((piece) => piece.logprobs ?? [])
  const list = <K extends 'tokens' | 'token_logprobs' | 'top_logprobs' | 'text_offset'>(name: K) =>
    logprobs.flatMap((one) => one[name] as unknown[])
  const all = {
    tokens: list('tokens'),
    token_logprobs: list('token_logprobs'),
    top_logprobs: list('top_logprobs'),
    text_offset: list('text_offset'),
  } as NonNullable<CompletionChoice['logprobs']>
  return { ...last, text: pieces.map(({ text }) => text).join(''), logprobs: last.logprobs === null ? null : all }
}

const whole = async (
  speaking: Speaking,
  asked: readonly Asked[],
  promptTokens: number,
  headers: Record<string, string>,
): Promise<AnswerReply> => {
  const pieces = asked.map((): CompletionChoice[] => [])
  const tokens = await all(speaking, asked, (index) => (choice) => {
    pieces[index]!.push(choice)
    return Promise.resolve()
  })
  return {
    headers,
    body: { ...speaking.head, choices: pieces.map(joined), usage: completionUsage(promptTokens, tokens) },
  }
}

const stream = async (
  speaking: Speaking,
  asked: readonly Asked[],
  promptTokens: number,
  headers: Record<string, string>,
  call: CompletionCall,
): Promise<null> => {
  const { ports, request, head } = speaking
  const events = new EventStream(call.response, headers, ports, null)
  const frame = (rest: object): Frame => ({ data: { ...head, ...rest } })
  try {
    const tokens = await all(speaking, asked, () => async (choice) => {
      if (!(await events.send([frame({ choices: [choice], ...(request.includeUsage ? { usage: null } : {}) })])))
        throw new Cancelled('client_gone')
    })
    events.done([
      ...(request.includeUsage ? [frame({ choices: [], usage: completionUsage(promptTokens, tokens) })] : []),
      { data: '[DONE]' },
    ])
  } catch (error) {
    if (!events.opened) {
      events.close()
      throw error
    }
    const fault = faultOfCancellation(error)
    call.onFault(fault)
    events.done([{ data: chatError(fault, toldInStream(fault)) }, { data: '[DONE]' }])
  }
  return null
}
