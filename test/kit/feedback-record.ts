/** Small records of `turns`. */
import { encodeEvent } from '@instar/events'
import type { Append } from '@instar/log'

export const encodedFeedback = (session: string, i: number): ReturnType<typeof encodeEvent> =>
  encodeEvent({
    type: 'FeedbackGiven',
    id: `f${i}`,
    session,
    turn: null,
    value: 1,
    comment: null,
    subject: 'u',
    key: null,
    at: 1000 + i,
  })

export const feedbackRecord = (session: string, i: number): Append => {
  const { id: _, ...record } = encodedFeedback(session, i)
  return record
}
