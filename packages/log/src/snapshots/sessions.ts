/** A session's fold in short: its turns, each a row without what the session says already. */
import {
  addTurn,
  emptySession,
  sessionOfTurn,
  type ScoreState,
  type SessionState,
  type TurnState,
} from '@instar/events'

type Row = [
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
  TurnState['feedback'],
  number,
  number,
  number,
  number,
]

export const packSession = ({ session, parent, turns }: SessionState): [parent: string | null, turns: Row[]] => {
  const short = (turn: string | null): string | null => (turn === null ? null : turn.slice(session.length + 1))
  return [
    parent,
    turns.map((t) => [
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
      short(t.follows),
      short(t.next),
      t.closed,
      t.closedBy,
      t.discardedBy,
      t.feedback,
      t.at,
      t.finishedAt,
      t.partition,
      t.offset,
    ]),
  ]
}

export const unpackSession = (packed: unknown, id: string): SessionState => {
  const long = (turn: string | null): string | null => (turn === null ? null : `${id}.${turn}`)
  const [parent, rows] = packed as ReturnType<typeof packSession>
  const session = { ...emptySession(id), parent }
  for (const [
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
    feedback,
    at,
    finishedAt,
    partition,
    offset,
  ] of rows) {
    addTurn(session, {
      turn: `${id}.${turn}`,
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
      follows: long(follows),
      next: long(next),
      closed,
      closedBy,
      discardedBy,
      feedback,
      at,
      finishedAt,
      partition,
      offset,
    })
  }
  return session
}

type Score = [
  string,
  number,
  string,
  string,
  number | null,
  string | null,
  string | null,
  ScoreState['hint'],
  ScoreState['rank'],
  number,
  number,
  session: string | null,
  policy: string | null,
]

/** `session` and `policy` are the row's, unless a record said otherwise. */
export const packScores = (scores: ReadonlyMap<string, ScoreState>, policy: string): Score[] =>
  [...scores.values()].map((s) => [
    s.turn,
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
  ])

export const unpackScores = (packed: unknown, session: string, policy: string): Map<string, ScoreState> =>
  new Map(
    (packed as Score[]).map(
      ([turn, version, subject, score, reward, judge, reason, hint, rank, revision, at, otherSession, otherPolicy]) => [
        turn,
        {
          turn,
          session: otherSession ?? session,
          policy: otherPolicy ?? policy,
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
        },
      ],
    ),
  )
