/**
 * Generates one candidate of a request, from its first token to its record. Tokens are streamed as they arrive, but the
 * last piece of content is held back until the turn is on the log: an answer that a client received in full is
 * captured.
 */
import { InstarError, type SessionLinked, type TurnAborted, type TurnCaptured, type TurnsEvent } from '@instar/events'
import type {
  ChatRequest,
  Constraint,
  GeneratedPiece,
  GenerateRequest,
  Hold,
  Reweighting,
  ServingEngine,
} from '@instar/engine/port'
import { CALLS_MAX } from '@instar/engine/limits'
import { mintCallId, type TokenCounts, type Piece, type Token } from '@instar/dialects'
import { Answer, type SampledAnswer } from './core/answer.ts'
import { aborted, captured, sampled, whyNotTrainable, type Admitted, type Candidate } from '../capture/core/turn.ts'
import type { Capture } from '../capture/capture.ts'
import type { Meter } from '../admin/metrics.ts'
import type { RequestSpan } from '../admin/spans.ts'

export type Why = TurnAborted['why']

/** The reason of a request's AbortSignal. */
export class Cancelled extends Error {
  readonly why: Why
  /** The error that is sent to the client, where the reason alone does not determine it. */
  readonly fault: InstarError | null
  constructor(why: Why, fault: InstarError | null = null) {
    super(why)
    this.why = why
    this.fault = fault
  }
}

/** Receives the pieces in order. Returns false if the client has disconnected and the piece was not sent. */
export type Sink = (piece: Piece, tokens: readonly Token[], idOf: (call: number) => string) => Promise<boolean>

/** `meter`: called with each turn that is on the log. `spent`: called with token counts as tokens arrive. */
export type CandidatePorts = {
  engine: ServingEngine
  capture: Capture
  now: () => number
  meter?: Pick<Meter, 'turn'>
  spent?: (tokens: number) => void
}

export type Task = {
  admitted: Admitted
  candidate: Candidate
  prompt: readonly number[]
  topLogprobs: number
  /** Prefix of the ids of tool calls. */
  callPrefix: 'call' | 'toolu'
  /** The request for an engine that takes messages. */
  chat: ChatRequest | null
  /**
   * The constraint on the answer. Under a constraint, log-probs differ from the policy's own, and the turn is not
   * trainable.
   */
  constraint: Constraint | null
  /** Changes to the sampling distribution. Such a turn is not trainable either. */
  reweighting: Reweighting | null
  parser: { tools: boolean; reasoning: boolean; oneCall: boolean }
  /** The parent session, if the log does not know it yet. */
  parent: string | null
  optedOut: boolean
  learning: boolean
  /** The agent rewrote the user's words (packages/agents). */
  contaminated: boolean
  /** Resolves when the blobs that the record refers to are on the log. */
  stored: Promise<void>
  sink: Sink | null
  /** False for a background candidate, which no client receives. If interrupted, it leaves no record. */
  shown: boolean
  signal: AbortSignal
  span: RequestSpan | null
  /** Counts memory that the request occupies, until it ends. */
  hold: Hold
}

/** `counts`: token counts, where the engine reports them. `thought`: the number of reasoning tokens, where known. */
export type Result = {
  said: SampledAnswer
  toolCallIds: string[]
  finish: TurnCaptured['finish']
  trainable: boolean
  tokens: readonly Token[]
  thought: number
  counts: TokenCounts | null
}

export const generateCandidate = async (ports: CandidatePorts, task: Task): Promise<Result> => {
  const { candidate } = task
  let { admitted } = task
  const answer = new Answer(task.parser)
  const idOf = (call: number): string => mintCallId(admitted.session, candidate.turn, call, task.callPrefix)
  const idsOf = (said: SampledAnswer): string[] => said.shown.calls.map((_, i) => idOf(i))
  let sent = 0
  let sentTokens = 0
  let firstTokenAt = 0

  /** Sends the available pieces except the last `keep`. */
  const flow = async (keep: number): Promise<void> => {
    while (task.sink && sent < answer.pieces.length - keep) {
      const piece = answer.pieces[sent]!
      const upTo =
        keep === 0 && sent === answer.pieces.length - 1 ? answer.tokens.length : answer.tokensUpTo(piece.upTo)
      const arrived = task.sink(piece, answer.tokens.slice(sentTokens, upTo), idOf)
      // The sink writes a piece at once or not at all; its promise only waits for room in the buffer.
      sent += 1
      sentTokens = Math.max(sentTokens, upTo)
      if (!(await arrived)) {
        sent -= 1
        throw new Cancelled('client_gone')
      }
    }
  }

  const link = (): SessionLinked[] =>
    task.parent === null
      ? []
      : [{ type: 'SessionLinked', session: admitted.session, parent: task.parent, at: ports.now() }]
  const write = (turn: TurnsEvent): Promise<void> => {
    const append = (): Promise<void> => ports.capture.write(turn, ...link())
    return task.span ? task.span.appending(append, candidate.turn) : append()
  }

  /** The sampled tokens are not all known, so the turn is not token-exact. */
  const withoutTokens = (): void => {
    if (admitted.tokens !== 'none') admitted = { ...admitted, tokens: 'none' }
  }
  let end: End
  try {
    end = await generate(ports, task, async (piece) => {
      firstTokenAt ||= ports.now()
      if (piece.type === 'tokens') {
        ports.spent?.(piece.tokens.length)
        for (const token of piece.tokens) answer.add(token)
      } else if (piece.type === 'text') {
        withoutTokens()
        answer.addText(piece.text)
      } else answer.end(piece.text)
      if (answer.calls > CALLS_MAX)
        throw new InstarError('engine_lost', `The model's answer has more than ${CALLS_MAX} tool calls.`)
      await flow(1)
    })
    if (end.inexact !== undefined) withoutTokens()
  } catch (error) {
    // The engine refused the request: there is no answer that could be recorded as aborted.
    if (
      error instanceof InstarError &&
      error.code === 'overloaded' &&
      answer.tokens.length === 0 &&
      !task.signal.aborted
    )
      throw error
    if (!task.shown) throw error
    const cut: unknown = task.signal.aborted ? task.signal.reason : error
    const said = answer.sent(sent)
    const finishedAt = ports.now()
    await task.stored
    const turn = aborted(
      admitted,
      candidate,
      { said, toolCallIds: idsOf(said), firstTokenAt: firstTokenAt || finishedAt, finishedAt },
      cut instanceof Cancelled ? cut.why : 'engine_failed',
    )
    await write(turn)
    ports.meter?.turn(turn, answer.tokens.length)
    throw cut
  }

  const said = answer.whole()
  const toolCallIds = idsOf(said)
  const finish = end.reason === 'stop' && toolCallIds.length > 0 ? 'tool_calls' : end.reason
  const notTrainable = whyNotTrainable({
    kind: admitted.kind,
    tokens: admitted.tokens,
    inexact: end.inexact ?? null,
    constrained: task.constraint !== null,
    reweighted: task.reweighting !== null,
    contaminated: task.contaminated,
    temperature: candidate.sampling.temperature,
    optedOut: task.optedOut,
    learning: task.learning,
    text: said.text,
  })
  await task.stored
  // TurnCaptured for an answer that the client receives, TurnSampled for a background candidate.
  const turn = (task.shown ? captured : sampled)(
    admitted,
    candidate,
    { said, toolCallIds, reason: notTrainable, firstTokenAt, finishedAt: ports.now() },
    finish,
  )
  // The turn is durable once this resolves; only then is the last piece sent.
  await write(turn)
  ports.meter?.turn(turn, end.counts?.completionTokens ?? answer.tokens.length)
  await flow(0)
  return {
    said,
    toolCallIds,
    finish,
    trainable: turn.trainable,
    tokens: answer.tokens,
    thought: answer.thought(),
    counts: end.counts ?? null,
  }
}

type End = Extract<GeneratedPiece, { type: 'end' }>

const generate = async (
  { engine }: CandidatePorts,
  { candidate, admitted, prompt, topLogprobs, chat, constraint, reweighting, signal, span, hold }: Task,
  take: (piece: GeneratedPiece) => Promise<void>,
): Promise<End> => {
  const request: GenerateRequest = {
    prompt,
    sampling: candidate.sampling,
    adapter: admitted.adapter,
    topLogprobs,
    session: admitted.session,
    hold,
    ...(chat ? { chat } : {}),
    ...(constraint ? { constraint } : {}),
    ...(reweighting ? { reweighting } : {}),
  }
  let end: End | null = null
  signal.throwIfAborted()
  const pieces = engine.generate(request, signal)
  for await (const piece of span
    ? span.generating(pieces, { engine: engine.capabilities().engine, ...candidate })
    : pieces) {
    signal.throwIfAborted()
    await take(piece)
    if (piece.type === 'end') end = piece
  }
  if (end) return end
  signal.throwIfAborted()
  throw new InstarError('engine_lost', 'The engine ended in the middle of an answer.')
}
