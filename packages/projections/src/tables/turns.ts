/** Tables of the topic `turns`. */
import { boolean, doublePrecision, index, integer, pgTable, sql, text } from '../drizzle.ts'
import { time } from './time.ts'

/** A session, with the values of its first turn. */
export const sessions = pgTable(
  'sessions',
  {
    session_id: text().primaryKey(),
    policy: text().notNull(),
    subject: text().notNull(),
    key_id: text(),
    label_source: text().notNull(),
    dialect: text().notNull(),
    first_turn_id: text().notNull(),
    started_at: time().notNull(),
  },
  (t) => [
    index('sessions_started').on(t.policy, t.started_at, t.session_id),
    index('sessions_subject').on(t.policy, t.subject, t.started_at),
  ],
)

/** A subagent's session and its parent session. */
export const sessionLinks = pgTable(
  'session_links',
  {
    session_id: text().primaryKey(),
    parent_session_id: text().notNull(),
    at: time().notNull(),
    record_id: text().notNull(),
  },
  (t) => [index('session_links_parent').on(t.parent_session_id)],
)

/** The ends of sessions: by the client, which may give an outcome or abort the episode, or by the idle time. */
export const sessionClosings = pgTable(
  'session_closings',
  {
    record_id: text().primaryKey(),
    session_id: text().notNull(),
    /** idle, client */
    why: text().notNull(),
    /** Number of turns that it closed: without it they would wait for a next state. */
    closed: integer().notNull(),
    /** Whether the turns before it are not used for training. */
    discarded: boolean().notNull(),
    /** The outcome of the episode, −1…1, in the closing that gave it first; null in the others. */
    outcome: doublePrecision(),
    /** With an outcome the task of the episode, '' where it is not known. */
    task: text(),
    key_id: text(),
    at: time().notNull(),
  },
  (t) => [index('session_closings_session').on(t.session_id)],
)

export const turns = pgTable(
  'turns',
  {
    turn_id: text().primaryKey(),
    session_id: text().notNull(),
    policy: text().notNull(),
    version: integer().notNull(),
    /** sha256 of the adapter that sampled the answer; null: the base model. */
    adapter: text(),
    /** Id of the request, shared by its candidates. */
    group_id: text().notNull(),
    candidate: integer().notNull(),
    candidates: integer().notNull(),
    /** False for a candidate that was sampled in the background. */
    shown: boolean().notNull().default(true),
    /** chat, responses, messages */
    dialect: text().notNull(),
    /** main, side */
    kind: text().notNull(),
    label_source: text().notNull(),
    /** The agent's id for all requests that one message of the user caused. */
    user_turn: text(),
    /** The program that sent the request, of a closed list; null: recorded by an earlier build, or imported. */
    agent: text(),
    /** The task of the episode that the request belongs to; '' where it is not known. Null: no episode. */
    task: text(),
    subject: text().notNull(),
    key_id: text(),
    /** complete, aborted */
    status: text().notNull(),
    /** Why the answer ended: stop, length, tool_calls; for aborted turns client_gone, engine_failed, shutdown. */
    finish: text().notNull(),
    trainable: boolean().notNull(),
    /** Why the turn is not trainable. */
    reason: text(),
    off_prefix: boolean().notNull(),
    /** exact, none */
    tokens: text().notNull(),
    /** 1 for the first request with this content in the session, 2 for the second, and so on. */
    attempt: integer().notNull(),
    /** The turn that this turn continues. */
    follows_turn_id: text(),
    /** The turn whose request contains the next state. */
    next_turn_id: text(),
    /** open: there is no next state yet; turn: it is in `next_turn_id`; none: the turn was closed without one. */
    next_state: text().notNull(),
    prompt_tokens: integer().notNull(),
    completion_tokens: integer().notNull(),
    started_at: time().notNull(),
    first_token_at: time().notNull(),
    finished_at: time().notNull(),
    /** Time from admission to the first token, and to the last. */
    ttft_ms: doublePrecision().notNull(),
    latency_ms: doublePrecision().notNull(),
    temperature: doublePrecision().notNull(),
    engine: text().notNull(),
    /** Empty: that of the log has no secret, so a reader could hash a request that it guesses and compare. */
    digest: text().notNull(),
    record_id: text().notNull(),
  },
  (t) => [
    index('turns_session').on(t.session_id),
    index('turns_version').on(t.policy, t.version),
    index('turns_agent').on(t.policy, t.agent),
    index('turns_reason')
      .on(t.policy, t.reason)
      .where(sql`${t.reason} is not null`),
  ],
)

export const feedback = pgTable(
  'feedback',
  {
    feedback_id: text().primaryKey(),
    turn_id: text().notNull(),
    session_id: text().notNull(),
    value: doublePrecision().notNull(),
    subject: text().notNull(),
    key_id: text(),
    at: time().notNull(),
    record_id: text().notNull(),
  },
  (t) => [index('feedback_turn').on(t.turn_id)],
)
