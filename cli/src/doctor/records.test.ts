/** What `instar doctor` finds in the records of a log. */
import { encodeEvent, type Event } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { captured } from '../../../test/kit/scored-history.ts'
import { readRecords } from './records.ts'

test('records of episodes are read with the scores beside them', async () => {
  const turn = captured({ session: 's', messages: [{ role: 'user', content: 'Sort it.' }], answer: 'Done.', at: 10 })
  const episode = { session: 's', policy: 'policy', task: 'sort', key: null, begunAt: 10, at: 20 }
  const end = { closing: 'c', outcome: 1, endedAt: 15, turns: [turn.turn], part: 0, parts: 1 }
  const skip: Event = {
    type: 'TurnSkipped',
    reason: 'abstained',
    turn: turn.turn,
    session: 's',
    policy: 'policy',
    version: 0,
    subject: turn.subject,
    verdicts: [],
    cause: 'c',
    rank: null,
    at: 30,
  }
  const log = openMemoryLog()
  const events: Event[] = [
    { ...turn, task: 'sort' },
    { type: 'EpisodeBegun', ...episode },
    { type: 'EpisodeEnded', ...episode, ...end },
    skip,
    { ...skip, at: 31 },
  ]
  await log.append(events.map((event) => encodeEvent(event)))
  const { summary, unreadable } = await readRecords(log)
  assert.match(summary, /^1 turns, 4 scores, .*; 1 ignored$/)
  assert.deepEqual(unreadable, [])
})
