/** What a gateway stores of the records of `turns`: the shared fold, and what it keeps with each turn. */
import {
  contentOfAnswer,
  COUNTED,
  foldTurns,
  readWritten,
  wordsHash,
  type FoldOutcome,
  type Logged,
  type Table,
  type TurnsEvent,
  type TurnsState,
  type TurnState,
} from '@instar/events'
import { sessionIdPart } from '@instar/dialects'

/** What the gateway keeps with a turn. */
export type TurnExtra = {
  /** Number of references from this turn's body to a full copy. */
  bodyDepth: number
  idsDepth: number
  /** Whether its request had tools; null: not known without its body. */
  tools: boolean | null
  /** Whether a client received the answer, so that the turn can be found by it. */
  said: boolean
  /** The words of its content (text-behind.ts), for finding it inside a longer text; null without any. */
  words: string | null
}

export type StoredTurns = {
  fold: TurnsState
  /** Session part of our minted ids (60-bit hash of a session) → session, also for evicted ones. */
  byMintedId: Table<string, string>
}

export const extraOf = (turn: Pick<TurnState, 'extra'> | undefined): TurnExtra | undefined =>
  turn?.extra as TurnExtra | undefined

/** The turn of a record that is one and was folded. */
export const turnOf = ({ fold }: Pick<StoredTurns, 'fold'>, { event }: Logged<TurnsEvent>): TurnState | undefined =>
  isTurn(event) ? fold.turns.get(event.turn) : undefined

type TurnEvent = Extract<TurnsEvent, { type: 'TurnCaptured' | 'TurnAborted' | 'TurnSampled' }>

const isTurn = (event: TurnsEvent): event is TurnEvent =>
  event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'

/** Whether this very record was folded before: delivered twice, or read ahead of the others. */
export const isAgain = (index: Pick<StoredTurns, 'fold'>, logged: Logged<TurnsEvent>): boolean => {
  const known = turnOf(index, logged)
  return known?.offset === logged.offset && known.partition === logged.partition
}

/** Folds a record, with what is kept of its turn. */
export const foldTurn = ({ fold }: Pick<StoredTurns, 'fold'>, logged: Logged<TurnsEvent>): FoldOutcome => {
  const outcome = foldTurns(fold, logged)
  const { event } = logged
  if (!outcome.counted || !isTurn(event)) return outcome
  const turn = fold.turns.get(event.turn)
  if (!turn) return outcome
  const before = (other: string | null) => (other === null ? undefined : extraOf(fold.turns.get(other)))
  // A snapshot writes the turn, since it was folded just now.
  turn.extra = {
    bodyDepth: event.body.from === null ? 0 : 1 + (before(event.body.from)?.bodyDepth ?? 0),
    idsDepth: event.prompt.from === null ? 0 : 1 + (before(event.prompt.from)?.idsDepth ?? 0),
    tools: null,
    said: event.type !== 'TurnSampled' && (event.text.bytes.length > 0 || event.toolCallIds.length > 0),
    words: event.type === 'TurnSampled' ? null : wordsHash(contentOfAnswer(readWritten(event.text))),
  } satisfies TurnExtra
  return outcome
}

/** Folds a record of `turns` in log order, without an index of recent sessions: for checkpoints. */
export const evolveStored = (stored: StoredTurns, logged: Logged<TurnsEvent>): FoldOutcome => {
  if (isAgain(stored, logged)) return COUNTED
  const outcome = foldTurn(stored, logged)
  const { session } = logged.event
  const state = outcome.counted ? stored.fold.sessions.get(session) : undefined
  // Of the first record of a session.
  if (state && state.turns.length === (isTurn(logged.event) ? 1 : 0))
    stored.byMintedId.set(sessionIdPart(session), session)
  return outcome
}
