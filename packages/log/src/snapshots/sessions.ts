/** Compact rows of the fold states of sessions and scores: arrays of fields, turn ids without the session's prefix. */
import { emptySession, sessionOfTurn, type ScoreState, type SessionState, type TurnState } from '@instar/events'

export type PackedTurn = [
  string,
  string,
  string,
  number,
  TurnState['status'],
  TurnState['kind'],
  string,
  number,
  number,
  boolean,
  string,
  string | null,
  boolean,
  string | null,
  number,
  string,
  string,
  string,
  string | null,
  string | null,
  boolean,
  string | null,
  string | null,
  string | null,
  string | null,
  boolean,
  TurnState['feedback'],
  number,
  number,
  number,
  number,
  unknown?,
]

export type PackedFields = [parent: string | null, closed: boolean, outcome: SessionState['outcome']]

export const packFields = ({ parent, closed, outcome }: SessionState): PackedFields => [parent, closed, outcome]

/** The session without its turns. */
export const unpackFields = ([parent, closed, outcome]: PackedFields, id: string): SessionState => ({
  ...emptySession(id),
  parent,
  closed,
  outcome,
})

/** `turns`: some of the session's. */
export const packTurns = ({ session }: SessionState, turns: readonly TurnState[]): PackedTurn[] => {
  const withoutSession = (turn: string | null): string | null => (turn === null ? null : turn.slice(session.length + 1))
  return turns.map((t) => {
    const packed: PackedTurn = [
      t.turn.slice(session.length + 1),
      t.record,
      t.policy,
      t.version,
      t.status,
      t.kind,
      t.group,
      t.candidate,
      t.candidates,
      t.shown,
      t.subject,
      t.key,
      t.trainable,
      t.reason,
      t.attempt,
      t.digest,
      t.answer.strict,
      t.answer.loose,
      withoutSession(t.follows),
      withoutSession(t.next),
      t.closed,
      t.closedBy,
      t.discardedBy,
      t.task,
      t.outcomeBy,
      t.deleted,
      t.feedback,
      t.at,
      t.finishedAt,
      t.partition,
      t.offset,
    ]
    if (t.extra !== undefined) packed.push(t.extra)
    return packed
  })
}

/** The next turn of the session. */
export const unpackTurn = (
  [
    turn,
    record,
    policy,
    version,
    status,
    kind,
    group,
    candidate,
    candidates,
    shown,
    subject,
    key,
    trainable,
    reason,
    attempt,
    digest,
    strict,
    loose,
    follows,
    next,
    closed,
    closedBy,
    discardedBy,
    task,
    outcomeBy,
    deleted,
    feedback,
    at,
    finishedAt,
    partition,
    offset,
    extra,
  ]: PackedTurn,
  { session: id, turns }: SessionState,
): TurnState => {
  const withSession = (name: string | null): string | null => (name === null ? null : `${id}.${name}`)
  return {
    turn: `${id}.${turn}`,
    place: turns.length,
    record,
    session: id,
    policy,
    version,
    status,
    kind,
    group,
    candidate,
    candidates,
    shown,
    subject,
    key,
    trainable,
    reason,
    attempt,
    digest,
    answer: { strict, loose },
    follows: withSession(follows),
    next: withSession(next),
    closed,
    closedBy,
    discardedBy,
    task,
    outcomeBy,
    deleted,
    feedback,
    at,
    finishedAt,
    partition,
    offset,
    ...(extra === undefined ? {} : { extra }),
  }
}

/** What names a turn, and where its record is. */
export type TurnBrief = Pick<
  TurnState,
  'turn' | 'record' | 'key' | 'shown' | 'digest' | 'answer' | 'finishedAt' | 'partition' | 'offset' | 'extra'
>

/** A part of the turn, which takes a fraction of the time of `unpackTurn`. */
export const unpackBrief = (packed: PackedTurn, session: string): TurnBrief => ({
  turn: `${session}.${packed[0]}`,
  record: packed[1],
  shown: packed[9],
  key: packed[11],
  digest: packed[15],
  answer: { strict: packed[16], loose: packed[17] },
  finishedAt: packed[28],
  partition: packed[29],
  offset: packed[30],
  extra: packed[31],
})

export type PackedScore = [
  version: number,
  subject: string,
  score: string,
  reward: number | null,
  judge: string | null,
  reason: string | null,
  hint: ScoreState['hint'],
  rank: ScoreState['rank'],
  revision: number,
  at: number,
  session: string | null,
  policy: string | null,
]

/** `session` and `policy` are null if they are those of the turn's id and of the table. */
export const packScore = (s: ScoreState, policy: string): PackedScore => [
  s.version,
  s.subject,
  s.score,
  s.reward,
  s.judge,
  s.reason,
  s.hint,
  s.rank,
  s.revision,
  s.at,
  s.session === sessionOfTurn(s.turn) ? null : s.session,
  s.policy === policy ? null : s.policy,
]

export const unpackScore = (
  [version, subject, score, reward, judge, reason, hint, rank, revision, at, session, other]: PackedScore,
  turn: string,
  policy: string,
): ScoreState => ({
  turn,
  session: session ?? sessionOfTurn(turn),
  policy: other ?? policy,
  version,
  subject,
  score,
  reward,
  judge,
  reason,
  hint,
  rank,
  revision,
  at,
})
