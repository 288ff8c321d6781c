/**
 * `/admin/judge/chat/completions`: the base weights answer the scorer, as a judge of turns. Such an answer is no turn:
 * nothing of it is written to the log. It is sampled while no client's request runs, or beside one (idle-queue.ts).
 */
import { asInstarError, DIALECTS, parseJson } from '@instar/dialects'
import { contextLengthExceeded, InstarError } from '@instar/events'
import type { FinishReason, GenerateRequest } from '@instar/engine/port'
import { seedsOf } from '../capture/core/turn.ts'
import { hex } from './random.ts'
import { beyondContext } from '../prompt/counting.ts'
import { Cancelled } from './candidate.ts'
import { constrained } from './constrained.ts'
import type { AnswerCall, AnswerPorts } from './context.ts'
import { Answer } from './core/answer.ts'
import { chatOf } from './core/chat-asked.ts'
import { startDeadline } from './deadline.ts'
import { faultOfCancellation } from './request.ts'

export type JudgementCall = Pick<AnswerCall, 'body' | 'response' | 'revoked' | 'hold'>
type Ports = Pick<
  AnswerPorts,
  'engine' | 'checks' | 'model' | 'pool' | 'policy' | 'random' | 'now' | 'idle' | 'answerTimeoutMs'
>

/** The version that judges: the base, which no update has changed. */
const BASE_VERSION = 0

const { chat } = DIALECTS

type Judgement = { content: string; finish: FinishReason; tokens: number }
/** `thinks`: the prompt ends inside an open `<think>`. */
type Asked = { request: Omit<GenerateRequest, 'adapter'>; thinks: boolean }

/** A whole chat completion of one choice. Throws InstarError. */
export const judge = async (ports: Ports, { body, response, revoked, hold }: JudgementCall): Promise<unknown> => {
  const controller = new AbortController()
  const gone = (): void => {
    if (!response.writableFinished) controller.abort(new Cancelled('client_gone'))
  }
  response.once('close', gone)
  if (response.destroyed) gone()
  const deadline = startDeadline(ports.answerTimeoutMs, controller, revoked)
  try {
    const asked = await prepared(ports, body, controller.signal)
    const { content, finish, tokens } = await ports.idle.run('judgement', controller.signal, (signal) =>
      generate(ports, { ...asked, request: { ...asked.request, hold } }, signal),
    )
    const promptTokens = asked.request.prompt.length
    return {
      id: `judgement-${hex(ports.random(12))}`,
      object: 'chat.completion',
      created: Math.floor(ports.now() / 1000),
      model: `${ports.policy}@${BASE_VERSION}`,
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: finish }],
      usage: {
        prompt_tokens: promptTokens,
        completion_tokens: tokens,
        total_tokens: promptTokens + tokens,
      },
    }
  } catch (error) {
    throw controller.signal.aborted ? faultOfCancellation(controller.signal.reason) : asInstarError(error)
  } finally {
    deadline.clear()
    response.off('close', gone)
  }
}

/** Throws `bad_request`, `context_length_exceeded`. */
const prepared = async (
  { engine, checks, model, random }: Ports,
  body: Uint8Array,
  gone: AbortSignal,
): Promise<Asked> => {
  const capabilities = engine.capabilities()
  const request = chat.request(parseJson(body), capabilities.accepts)
  if (request.stream || request.n !== 1 || request.tools.length > 0)
    throw new InstarError('bad_request', 'A judgement is one whole answer without tools.', {
      field: request.stream ? 'stream' : request.n !== 1 ? 'n' : 'tools',
    })
  const beyond = beyondContext(model, request)
  if (beyond !== null) throw contextLengthExceeded(beyond, model.contextLength)
  const prompt = model.promptIds(request.messages, { tools: [] })
  if (prompt.length >= model.contextLength) throw contextLengthExceeded(prompt.length, model.contextLength)
  const thinks = model.decode(prompt.slice(-8)).trimEnd().endsWith('<think>')
  const constraint = await constrained({ engine, checks }, { key: null, gone }, chat, request, thinks)
  const { temperature, topP, topK } = model.defaults
  const sampling = {
    temperature: request.temperature ?? temperature,
    topP: request.topP ?? topP,
    topK: Math.max(0, request.topK ?? topK),
    seed: seedsOf(request, random)[0]!,
    maxTokens: Math.min(request.maxTokens ?? Infinity, model.contextLength - prompt.length),
    stop: [...request.stop],
  }
  return {
    thinks,
    request: {
      prompt,
      sampling,
      topLogprobs: 0,
      ...(capabilities.chat ? { chat: chatOf(chat, request) } : {}),
      ...(constraint ? { constraint } : {}),
    },
  }
}

const generate = async (
  { engine, pool }: Ports,
  { request, thinks }: Asked,
  signal: AbortSignal,
): Promise<Judgement> => {
  const lease = await pool.lease(BASE_VERSION)
  try {
    const answer = new Answer({ tools: false, reasoning: thinks })
    for await (const piece of engine.generate({ ...request, adapter: lease.adapter }, signal)) {
      signal.throwIfAborted()
      if (piece.type === 'tokens') for (const token of piece.tokens) answer.add(token)
      else if (piece.type === 'text') answer.addText(piece.text)
      else {
        answer.end(piece.text)
        const { shown } = answer.whole()
        return {
          content: shown.content,
          finish: piece.reason,
          tokens: piece.counts?.completionTokens ?? answer.tokens.length,
        }
      }
    }
    signal.throwIfAborted()
    throw new InstarError('engine_lost', 'The engine ended in the middle of an answer.')
  } finally {
    lease.release()
  }
}
