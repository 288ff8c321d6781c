/** Rows of sessions, turns, feedback and next states from records of `turns` that count. */
import { lastShown, taskOf, type TurnsState } from '@instar/events/folds/turns'
import type {
  FeedbackGiven,
  Logged,
  SessionClosed,
  TurnAborted,
  TurnCaptured,
  TurnSampled,
  TurnsEvent,
} from '@instar/events/records'
import { timestampOf, type ProjectedRows } from './rows.ts'

export const turnsRows = (state: TurnsState, logged: Logged<TurnsEvent>, rows: ProjectedRows): void => {
  const { event, id } = logged
  if (event.type === 'FeedbackGiven') feedbackRow(state, event, id, rows)
  else if (event.type === 'SessionClosed') closedRows(state, event, id, rows)
  else if (event.type === 'SessionLinked')
    rows.session_links.push({
      session_id: event.session,
      parent_session_id: event.parent,
      at: timestampOf(event.at),
      record_id: id,
    })
  else if (event.type !== 'ResponseDeleted') turnRow(state, event, id, rows)
}

const turnRow = (
  state: TurnsState,
  event: TurnCaptured | TurnAborted | TurnSampled,
  id: string,
  rows: ProjectedRows,
): void => {
  const turn = state.turns.get(event.turn)
  const session = state.sessions.get(event.session)
  if (!turn || !session) return
  if (session.turns[0] === turn) {
    rows.sessions.push({
      session_id: event.session,
      policy: event.policy,
      subject: event.subject,
      key_id: event.key,
      label_source: event.labelSource,
      dialect: event.dialect,
      first_turn_id: event.turn,
      started_at: timestampOf(event.at),
    })
  }
  rows.turns.push({
    turn_id: event.turn,
    session_id: event.session,
    policy: event.policy,
    version: event.version,
    adapter: event.adapter,
    group_id: event.group,
    candidate: event.candidate,
    candidates: event.candidates,
    shown: turn.shown,
    dialect: event.dialect,
    kind: event.kind,
    label_source: event.labelSource,
    user_turn: event.userTurn,
    agent: event.agent ?? null,
    task: turn.task,
    subject: event.subject,
    key_id: event.key,
    status: turn.status,
    finish: event.type === 'TurnAborted' ? event.why : event.finish,
    trainable: event.trainable,
    reason: event.reason,
    off_prefix: event.offPrefix,
    tokens: event.tokens,
    attempt: turn.attempt,
    follows_turn_id: turn.follows,
    next_turn_id: null,
    next_state: turn.shown ? 'open' : 'none',
    prompt_tokens: event.prompt.length,
    completion_tokens: event.ids.length,
    started_at: timestampOf(event.at),
    first_token_at: timestampOf(event.firstTokenAt),
    finished_at: timestampOf(event.finishedAt),
    ttft_ms: event.firstTokenAt - event.at,
    latency_ms: event.finishedAt - event.at,
    temperature: event.sampling.temperature,
    engine: event.engine,
    digest: '',
    record_id: id,
  })
  const followed = turn.follows === null ? undefined : state.turns.get(turn.follows)
  if (followed?.next === turn.turn)
    rows.next_states.push({ turn_id: followed.turn, next_state: 'turn', next_turn_id: turn.turn })
}

const feedbackRow = (state: TurnsState, event: FeedbackGiven, id: string, rows: ProjectedRows): void => {
  const turn = event.turn ?? lastShown(state.sessions.get(event.session))?.turn
  if (turn === undefined) return
  rows.feedback.push({
    feedback_id: event.id,
    turn_id: turn,
    session_id: event.session,
    value: event.value,
    subject: event.subject,
    key_id: event.key,
    at: timestampOf(event.at),
    record_id: id,
  })
}

const closedRows = (state: TurnsState, event: SessionClosed, id: string, rows: ProjectedRows): void => {
  const closed = [...new Set(event.open)].filter((turn) => state.turns.get(turn)?.closedBy === id)
  for (const turn of closed) rows.next_states.push({ turn_id: turn, next_state: 'none', next_turn_id: null })
  const session = state.sessions.get(event.session)
  const outcome = session?.outcome?.record === id ? session.outcome : null
  rows.session_closings.push({
    record_id: id,
    session_id: event.session,
    why: event.why,
    closed: closed.length,
    discarded: event.discarded === true,
    outcome: outcome && outcome.value,
    task: session && outcome ? taskOf(session) : null,
    key_id: session?.turns[0]?.key ?? null,
    at: timestampOf(event.at),
  })
}
