/** Builds the records of turns from what is known at admission and from the outcome. */
import {
  ValueDigest,
  written,
  type RecordedSampling,
  type TurnAborted,
  type TurnCaptured,
  type TurnFacts,
  type TurnKind,
  type TurnSampled,
  type TurnState,
} from '@instar/events'
import type { SampledAnswer } from '../../generate/core/answer.ts'
import type { Request } from '@instar/dialects'
import { header, type Headers } from '@instar/agents'

/** The facts of a turn that do not depend on the answer. All candidates of a request share them. */
export type Admitted = Omit<
  TurnFacts,
  | 'turn'
  | 'candidate'
  | 'sampling'
  | 'ids'
  | 'logprobs'
  | 'text'
  | 'toolCallIds'
  | 'answer'
  | 'trainable'
  | 'reason'
  | 'firstTokenAt'
  | 'finishedAt'
>

export type Candidate = { turn: string; candidate: number; sampling: RecordedSampling }
export type Times = { firstTokenAt: number; finishedAt: number }

/**
 * The digest of a prompt. Requests that differ in sampling options alone share it, so that their turns are attempts at
 * one task.
 */
export const digestOf = (request: Pick<Request, 'messages' | 'tools'>): string => digestsOf(request, null).digest

/** `before`: the digest of the request's first `upTo` messages, null if `upTo` is null. */
export const digestsOf = (
  { messages, tools }: Pick<Request, 'messages' | 'tools'>,
  upTo: number | null,
): { digest: string; before: string | null } => {
  const digest = new ValueDigest().add(tools)
  let before: string | null = null
  for (const [at, { minted: _, ...said }] of messages.entries()) {
    if (at === upTo) before = digest.fork().end()
    digest.add(said)
  }
  return { digest: digest.end(), before }
}

export const lastMain = (turns: readonly TurnState[]): TurnState | undefined =>
  turns.findLast((turn) => turn.shown && turn.kind === 'main')

/** True for `x-instar-no-train` with any value but 0 or false. */
export const optedOut = (headers: Headers): boolean => {
  const value = header(headers, 'x-instar-no-train')
  return value !== null && value !== '0' && value.toLowerCase() !== 'false'
}

type Learnable = {
  kind: TurnKind
  tokens: 'exact' | 'none'
  inexact?: string | null
  constrained?: boolean
  reweighted?: boolean
  contaminated?: boolean
  /** The answer was not sampled by this gateway's engine. */
  unsampled?: boolean
  temperature: number
  optedOut: boolean
  learning: boolean
  text: string
}

/**
 * Below it, sampling is greedy for learning: the gradient vanishes (2e-5 of that at temperature 1, at 0.01), and the KL
 * at the turn's temperature grows with 1/temperature, so that one such turn in a batch of 16 exceeds the bound on the KL
 * to the base and draws the adapter back to it.
 */
const LEAST_TEMPERATURE = 0.1

/** The reason why a turn is not trainable, or null if it is. */
export const whyNotTrainable = (turn: Learnable): string | null =>
  turn.optedOut
    ? 'opted_out'
    : !turn.learning
      ? 'off'
      : turn.kind === 'side'
        ? 'side'
        : turn.tokens === 'none'
          ? (turn.inexact ?? 'no_tokens')
          : turn.contaminated
            ? 'contaminated'
            : turn.constrained
              ? 'constrained'
              : turn.reweighted
                ? 'reweighted'
                : turn.temperature < LEAST_TEMPERATURE
                  ? 'greedy'
                  : turn.text.trim() === ''
                    ? 'empty'
                    : turn.unsampled
                      ? 'not_sampled'
                      : null

export type Outcome = { said: SampledAnswer; toolCallIds: string[]; reason: string | null } & Times

const facts = (admitted: Admitted, candidate: Candidate, outcome: Outcome): TurnFacts => ({
  // An object that is spread first is copied in one step, a later one field by field.
  ...admitted,
  turn: candidate.turn,
  candidate: candidate.candidate,
  sampling: candidate.sampling,
  ids: admitted.tokens === 'exact' ? outcome.said.ids : [],
  logprobs: admitted.tokens === 'exact' ? outcome.said.logprobs : [],
  text: written(outcome.said.text),
  toolCallIds: outcome.toolCallIds,
  answer: outcome.said.answer,
  trainable: outcome.reason === null,
  reason: outcome.reason,
  firstTokenAt: outcome.firstTokenAt,
  finishedAt: outcome.finishedAt,
})

export const captured = (
  admitted: Admitted,
  candidate: Candidate,
  outcome: Outcome,
  finish: TurnCaptured['finish'],
): TurnCaptured => ({ ...facts(admitted, candidate, outcome), type: 'TurnCaptured', finish })

/** Builds the record of a background candidate, which no client received. */
export const sampled = (
  admitted: Admitted,
  candidate: Candidate,
  outcome: Outcome,
  finish: TurnCaptured['finish'],
): TurnSampled => ({ ...facts(admitted, candidate, outcome), type: 'TurnSampled', finish })

/** Builds the record of an interrupted answer, which is never trainable. */
export const aborted = (
  admitted: Admitted,
  candidate: Candidate,
  outcome: Omit<Outcome, 'reason'>,
  why: TurnAborted['why'],
): TurnAborted => ({ ...facts(admitted, candidate, { ...outcome, reason: 'aborted' }), type: 'TurnAborted', why })

/** 31-bit seeds, one per candidate. A given seed determines all of them, and they differ. */
export const seedsOf = (request: Pick<Request, 'n' | 'seed'>, random: (bytes: number) => Uint8Array): number[] =>
  Array.from({ length: request.n }, (_, candidate) => {
    if (request.seed === null) return Buffer.from(random(4)).readUInt32LE() >>> 1
    return Number((BigInt(request.seed) + BigInt(candidate) * 0x9e3779b1n) & 0x7fffffffn)
  })
