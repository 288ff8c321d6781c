/**
 * What scores say of turns and episodes, for a trainer that does not read `turns`. A score says what its turn is (`of`),
 * `EpisodeBegun` and `EpisodeEnded` (packages/events/src/episode-records.ts) when turns wait for an outcome and which ones it
 * covers. From these a turn is entered into the fold of `turns` as its own record would have been, as far as batches use it:
 * without digest, answer, next state and position.
 *
 * All scores of a policy are in one partition, so that their order is that in which the scorers appended them.
 */
import {
  addTurn,
  emptySession,
  sessionOfTurn,
  taskOf,
  type EpisodeBegun,
  type EpisodeEnded,
  type ScoredFacts,
  type ScoresEvent,
  type SessionState,
  type TurnsEvent,
  type TurnState,
} from '@instar/events'
import type { EpisodeState } from './episode-index.ts'
import { hasUnread, moveTurns, type PendingState } from './pending.ts'

/** What a turn that was entered here keeps beside the fields of its own record (`TurnState.extra`). */
type EnteredTurn = Pick<ScoredFacts, 'begunAt' | 'earlier'>

/** Of records on `scores` that were read before what they refer to, at most: beyond it the trainer goes on reading `turns`. */
const MAX_AHEAD = 10_000

/** Of a state that follows from `turns`: turns and sessions that `scores` named before `turns` showed them, in this process. */
export class Ahead {
  readonly #names = new Set<string>()
  #isOver = false

  get isEmpty(): boolean {
    return !this.#isOver && this.#names.size === 0
  }

  add(name: string): void {
    if (this.#names.size < MAX_AHEAD) this.#names.add(name)
    else this.#isOver = true
  }

  delete(name: string): void {
    this.#names.delete(name)
  }
}

type ToldState = PendingState & { reads: 'turns' | 'scores'; ahead: Ahead }

/**
 * Whether a state that followed from `turns` may go on without: everything that the scores it has read refer to is in it. To be
 * asked only when this process has folded all that was on each topic when it began, since `ahead` knows what it read itself; the
 * switch is made at once, before another record is read.
 */
export const mayReadScoresAlone = (state: ToldState): boolean => !hasUnread(state) && state.ahead.isEmpty

/** Notes a record on `scores` whose turn or closing was not read on `turns` yet. */
export const noteAhead = ({ ahead, turns }: ToldState, event: ScoresEvent | EpisodeBegun | EpisodeEnded): void => {
  const session = turns.sessions.get(event.session)
  if (event.type === 'EpisodeBegun') {
    const hasName = event.task !== ''
    if (!session || (hasName && taskOf(session) === '')) ahead.add(beginName(event.session, hasName))
  } else if (event.type === 'EpisodeEnded') {
    if (!isReflected(session, event)) ahead.add(endName(event.session, event.outcome !== null))
  } else {
    const known = turns.turns.get(event.turn)
    if (!known) ahead.add(event.turn)
    else if (event.of?.unusable === 'discarded' && known.discardedBy === null) ahead.add(discardName(event.session))
  }
}

/** After a record of `turns`. */
export const noteRead = ({ ahead, turns }: ToldState, event: TurnsEvent): void => {
  if (ahead.isEmpty) return
  const session = turns.sessions.get(event.session)
  if ('answer' in event) {
    ahead.delete(event.turn)
    for (const hasName of [false, (session ? taskOf(session) : '') !== ''])
      ahead.delete(beginName(event.session, hasName))
  }
  if (event.type !== 'SessionClosed') return
  if (event.discarded === true) ahead.delete(discardName(event.session))
  if (session?.closed) ahead.delete(endName(event.session, false))
  if (session?.outcome) ahead.delete(endName(event.session, true))
}

const beginName = (session: string, hasName: boolean): string => `${hasName ? 'task' : 'begin'} ${session}`
const discardName = (session: string): string => `discard ${session}`
const endName = (session: string, hasOutcome: boolean): string => `${hasOutcome ? 'outcome' : 'end'} ${session}`

const isReflected = (session: SessionState | undefined, { outcome }: EpisodeEnded): boolean =>
  session?.closed === true && (outcome === null || session.outcome !== null)

/** Enters the turn of a score that counted, or what is new of it. */
export const enterScored = (state: ToldState, event: ScoresEvent, record: string): void => {
  const { of = null } = event
  const known = state.turns.turns.get(event.turn)
  if (of && !known) addNew(state, event, of, record)
  else if (of?.unusable === 'discarded' && known?.discardedBy === null)
    moveTurns(state, [event.turn], () => change(state, known, { discardedBy: record }))
  const told = state.told.get(event.session)
  if (told?.awaited.includes(event.turn)) {
    state.told.set(event.session, { ...told, awaited: told.awaited.filter((turn) => turn !== event.turn) })
    state.index.touch(event.session)
  }
}

const addNew = (state: ToldState, event: ScoresEvent, of: ScoredFacts, scoredBy: string): void => {
  const { turn, session: id, policy, version, subject } = event
  if (sessionOfTurn(turn) !== id) return
  const { sessions, turns } = state.turns
  const session = sessions.get(id) ?? emptySession(id)
  const told = state.told.get(id)
  const isDiscarded = of.unusable === 'discarded'
  const extra: EnteredTurn = { begunAt: of.begunAt, earlier: of.earlier }
  const entered: TurnState = {
    turn,
    place: session.turns.length,
    record: of.record,
    session: id,
    policy,
    version,
    status: 'complete',
    kind: 'main',
    group: of.group,
    candidate: 0,
    candidates: of.candidates,
    shown: of.shown,
    subject,
    key: of.key,
    trainable: of.unusable === null || isDiscarded,
    reason: isDiscarded ? null : of.unusable,
    attempt: 1,
    digest: '',
    answer: { strict: '', loose: '' },
    follows: null,
    next: null,
    closed: false,
    closedBy: null,
    discardedBy: isDiscarded ? scoredBy : null,
    task: of.task,
    outcomeBy: told?.awaited.includes(turn) ? (session.outcome?.record ?? null) : null,
    deleted: false,
    feedback: [],
    at: of.at,
    finishedAt: of.finishedAt,
    partition: -1,
    offset: -1,
    extra,
  }
  addTurn(session, entered)
  sessions.set(id, session)
  turns.set(turn, entered)
  // The beginning has a record of its own, which may come after the first score.
  if (of.task === null || !of.shown || of.unusable !== null || session.closed || told) return
  state.told.set(id, { task: of.task, key: of.key, begunAt: of.begunAt, awaited: [] })
  state.index.touch(id)
}

export const evolveBegun = (state: ToldState, { session: id, task, key, begunAt }: EpisodeBegun): void => {
  if (state.turns.sessions.get(id)?.closed === true) return
  const told = state.told.get(id)
  if (told && (told.task !== '' || task === '')) return
  state.told.set(id, { task, key, begunAt, awaited: told?.awaited ?? [] })
  state.index.touch(id)
}

export const evolveEnded = (state: ToldState, event: EpisodeEnded): void => {
  const { session: id, closing, outcome: value, endedAt, task, key, begunAt } = event
  const { sessions, turns } = state.turns
  const session = sessions.get(id) ?? emptySession(id)
  const isFirst = !isReflected(session, event)
  // A further part of the end that counted, or what `turns` has shown already.
  if (!isFirst && (value === null || session.outcome?.record !== closing)) return
  const covered = value === null ? [] : event.turns.filter((turn) => sessionOfTurn(turn) === id)
  // One that is repeated leaves the order of the turns as it is.
  const moved = isFirst
    ? session.turns.map(({ turn }) => turn)
    : covered.filter((turn) => turns.get(turn)?.outcomeBy !== closing)
  moveTurns(state, moved, () => {
    session.closed = true
    if (value !== null) session.outcome ??= { value, record: closing, task, at: endedAt ?? event.at }
    for (const turn of covered) {
      const known = turns.get(turn)
      if (known) change(state, known, { outcomeBy: closing })
    }
    sessions.set(id, session)
  })
  const before = state.told.get(id)
  const awaited = covered.filter((turn) => !state.scores.turns.has(turn))
  state.told.set(id, { task, key, begunAt, awaited: [...new Set([...(before?.awaited ?? []), ...awaited])] })
  state.index.touch(id)
  removeTold(state, id)
}

/** What was told of an episode is not needed any more when it is over and scored, and no turn of it waits for a batch. */
export const removeTold = (
  { told, turns, episodes, index }: EpisodeState & Pick<ToldState, 'index'>,
  id: string,
): void => {
  const known = told.get(id)
  if (!known || known.awaited.length > 0 || episodes.get(id) || turns.sessions.get(id)?.closed !== true) return
  told.delete(id)
  index.touch(id)
}

const change = ({ turns }: ToldState, turn: TurnState, fields: Partial<TurnState>): void => {
  Object.assign(turn, fields)
  turns.turns.set(turn.turn, turn)
  const session = turns.sessions.get(turn.session)
  if (session) turns.sessions.set(turn.session, session)
}

type Place = { scoredAt: number; of: Pick<ScoredFacts, 'at' | 'finishedAt' | 'begunAt' | 'earlier'> }

/**
 * Where the record of a turn is on the log, as far as its score says. Not by its position, also of one that `turns` showed: the
 * state outlives a copy of the log to other partitions, which a state that reads `turns` does not.
 */
export const placeOf = ({ turns, scores }: ToldState, id: string): Place | undefined => {
  const turn = turns.turns.get(id)
  const scoredAt = scores.turns.get(id)?.at
  if (!turn || scoredAt === undefined) return undefined
  const begunAt = turns.sessions.get(turn.session)?.turns[0]?.at ?? turn.at
  const entered = (turn.extra as EnteredTurn | undefined) ?? { begunAt, earlier: null }
  return { scoredAt, of: { at: turn.at, finishedAt: turn.finishedAt, ...entered } }
}
