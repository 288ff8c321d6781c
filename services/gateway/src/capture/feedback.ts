/**
 * `POST /v1/feedback`: appends feedback on a turn to its session's log. `turn_id` is the turn's id or an id from its
 * answer: the response's own (`chatcmpl-…`, `resp…`, `msg…`), an item's or a tool call's.
 */
import { MOST_COMMENT } from './core/comment.ts'
import {
  derivedId,
  InstarError,
  lastShown,
  readWritten,
  sessionOfTurn,
  written,
  type FeedbackGiven,
  type Written,
} from '@instar/events'
import { parseJson, text, wrong, type Fields } from '@instar/dialects'
import { sessionOfLabel, subjectOf } from '../session/core/labels.ts'
import { keyOfSession, sessionState, type SessionIndex } from '../session/core/session-index.ts'
import { hex } from '../generate/random.ts'
import type { Capture } from './capture.ts'
import { otherFeedback, type RunningFeedback } from './running-feedback.ts'
import { turnOfId } from '../session/references.ts'
import type { Tail } from '../session/tail.ts'

export type FeedbackPorts = {
  index: SessionIndex
  tail: Tail
  capture: Capture
  now: () => number
  random: (bytes: number) => Uint8Array
  tailWaitMs: number
  given: { recent: RecentFeedback; running: RunningFeedback }
}
export type FeedbackCall = { body: Uint8Array; key: string | null; idempotencyKey: string | null }

/** Maximum feedback records per turn, from all keys together. */
const MOST_FEEDBACK = 16

/** Ids of feedback that this gateway accepted recently, by turn. Counts records that are still being appended. */
export class RecentFeedback {
  private readonly turns = new Map<string, Set<string>>()
  private readonly most: number

  /** `most`: the number of remembered turns. */
  constructor(most = 4096) {
    this.most = most
  }

  /**
   * Returns null if the turn has reached its limit, else a function that undoes the reservation. `known`: feedback ids
   * that are on the log.
   */
  take(turn: string, id: string, known: readonly string[]): (() => void) | null {
    const ids = this.turns.get(turn) ?? new Set<string>()
    const all = new Set([...known, ...ids])
    if (!all.has(id) && all.size >= MOST_FEEDBACK) return null
    ids.add(id)
    this.turns.delete(turn)
    this.turns.set(turn, ids)
    if (this.turns.size > this.most) this.turns.delete(this.turns.keys().next().value!)
    return () => void ids.delete(id)
  }
}

type FeedbackReply = { id: string; session_id: string; turn_id: string | null; value: number }

export const giveFeedback = (ports: FeedbackPorts, call: FeedbackCall): Promise<FeedbackReply> =>
  ports.given.running.run(() => {
    ports.capture.admit()
    return give(ports, call)
  })

const give = async (ports: FeedbackPorts, call: FeedbackCall): Promise<FeedbackReply> => {
  const body = parseJson(call.body)
  const named = text(body, 'turn_id')
  const turn = named === null ? null : ((await turnOfId(ports, call.key, named))?.turn ?? named)
  const label = text(body, 'session_id')
  if (turn === null && label === null)
    throw new InstarError('bad_request', 'Name the turn (turn_id) or the session (session_id).', { field: 'turn_id' })
  if (turn !== null && label !== null && sessionOfLabel(call.key, label) !== sessionOfTurn(turn)) {
    throw new InstarError(
      'bad_request',
      'The turn (turn_id) is not of the session (session_id); one of them is enough.',
      { field: 'session_id' },
    )
  }
  const value = valueOf(body)
  const comment = text(body, 'comment')
  if (comment !== null && comment.length > MOST_COMMENT)
    throw wrong('comment', `a text of at most ${MOST_COMMENT} characters`)
  const user = text(body, 'user')
  const session = turn === null ? sessionOfLabel(call.key, label!) : sessionOfTurn(turn)
  if (
    !(await isKnown(ports, call.key, session, turn)) &&
    !((await ports.tail.turnsWithin(ports.tailWaitMs)) && (await isKnown(ports, call.key, session, turn)))
  ) {
    throw new InstarError('unknown_turn', turn === null ? 'There is no such session.' : 'There is no such turn.', {
      field: turn === null ? 'session_id' : 'turn_id',
    })
  }
  const id =
    call.idempotencyKey === null
      ? hex(ports.random(16))
      : derivedId('feedback', call.key ?? '', session, Buffer.from(call.idempotencyKey).toString('base64')).slice(0, 32)
  const event: FeedbackGiven = {
    type: 'FeedbackGiven',
    id,
    session,
    turn,
    value,
    comment: comment === null ? null : written(comment),
    subject: subjectOf(user, call.key, session),
    key: call.key,
    at: ports.now(),
  }
  const reply = { id, session_id: session, turn_id: turn, value }
  if (call.idempotencyKey === null) await write(ports, event)
  else {
    const content = JSON.stringify([turn, value, comment, event.subject])
    await ports.given.running.once(id, content, ports.tailWaitMs, async () => {
      if (!(await isOnLog(ports, event))) await write(ports, event)
    })
  }
  return reply
}

/** Throws `feedback_full`. */
const write = async (ports: FeedbackPorts, event: FeedbackGiven): Promise<void> => {
  const { id, session, turn } = event
  const target = turn === null ? lastShown(sessionState(ports.index, session)) : ports.index.fold.turns.get(turn)
  const takeBack = ports.given.recent.take(target?.turn ?? session, id, target?.feedback.map((one) => one.id) ?? [])
  if (takeBack === null)
    throw new InstarError(
      'feedback_full',
      `The turn ${target?.turn ?? session} has ${MOST_FEEDBACK} pieces of feedback, and no more are counted.`,
      { limit: MOST_FEEDBACK },
    )
  await ports.capture.write(event).catch((error: unknown) => {
    takeBack()
    throw error
  })
}

/** Whether the log has this feedback. Throws `bad_request` if it has other feedback with the same id. */
const isOnLog = async (
  { index, tail, tailWaitMs }: FeedbackPorts,
  { id, session, turn, value, comment }: FeedbackGiven,
): Promise<boolean> => {
  await tail.turnsWithin(tailWaitMs)
  const held = sessionState(index, session)
  if (!held?.feedback.has(id)) return false
  for (const state of held.turns) {
    const before = state.feedback.find((given) => given.id === id)
    if (!before) continue
    // The turn of feedback on a session is not compared: a later answer may be the last one now.
    if ((turn ?? state.turn) !== state.turn || before.value !== value || textOf(before.comment) !== textOf(comment))
      throw otherFeedback()
    return true
  }
  return false
}

const textOf = (comment: Written | null): string | null => (comment === null ? null : readWritten(comment))

const valueOf = (body: Fields): number => {
  const { value } = body
  if (typeof value === 'boolean') return value ? 1 : -1
  if (typeof value !== 'number' || !(value >= -1 && value <= 1))
    throw wrong('value', 'true, false or a number from -1 to 1')
  return value
}

const isKnown = async (
  { index, tail }: FeedbackPorts,
  key: string | null,
  session: string,
  turn: string | null,
): Promise<boolean> => {
  await tail.ready(session)
  return keyOfSession(index, session) === key && (turn === null || index.fold.turns.has(turn))
}
