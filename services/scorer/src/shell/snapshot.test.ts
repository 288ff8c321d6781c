/** The migration of the scorer's state. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, type Event, type TurnCaptured } from '@instar/events'
import { followEvents, openMemoryLog, openSnapshots, type EventLog, type StateVersion } from '@instar/log'
import { captured } from '../../../../test/kit/scored-history.ts'
import { evolve } from '../core/state.ts'
import { STATE_VERSION, stateOfSnapshot } from './snapshot.ts'

/** Turns of a session in a row. */
const ROW = 2

const turn = (session: string, n: number, task: string | null): TurnCaptured => ({
  ...captured({ session, messages: [{ role: 'user', content: `${n}` }], answer: `${n}`, at: n, name: `${n}` }),
  task,
})
const closed = (session: string, outcome: number | null): Event => ({
  type: 'SessionClosed',
  session,
  open: [turn(session, 0, null).turn],
  why: 'client',
  outcome,
  at: 50,
})
const EVENTS: Event[] = [
  // Its task is named in its third row.
  ...[0, 1, 2, 3, 4].map((n) => turn('long', n, n === 4 ? 'sort' : null)),
  closed('long', null),
  turn('outcome', 0, null),
  closed('outcome', 1),
  turn('plain', 0, null),
  closed('plain', null),
  turn('open', 0, 'sort'),
]

/** `ended` false: as a build of before `EpisodeEnded` leaves the state. */
const fold = async (log: EventLog, folder: string, version: StateVersion, ended = true) => {
  const settings = { records: 1e9, ms: Infinity, rowTurns: ROW, logLine: () => undefined }
  const snapshot = openSnapshots(folder, settings).of('scorer', version)
  const state = stateOfSnapshot(snapshot)
  let read = 0
  const follower = await followEvents(log, {
    name: 'scorer',
    topics: ['turns', 'scores', 'weights'],
    from: await snapshot.open(log),
    onEvent(logged) {
      read += 1
      evolve(state, logged)
      return snapshot.after(logged)
    },
  })
  await follower.caughtUp()
  await follower.stop()
  const ending = [...state.ending].sort()
  if (!ended) for (const session of ending) state.ending.delete(session)
  await snapshot.close()
  return { read, ending }
}

test('episodes that had ended in a state of version 1 are to be ended on scores, as after reading the log again', async (t) => {
  const [migrated, anew] = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'instar-scorer-')))
  t.after(() => [migrated, anew].forEach((folder) => rmSync(folder!, { recursive: true })))
  const log = openMemoryLog()
  await log.append(EVENTS.map((event) => encodeEvent(event)))
  await fold(log, migrated!, { number: 1, migrations: {} }, false)
  const ending = ['long', 'outcome']
  assert.deepEqual(await fold(log, anew!, STATE_VERSION), { read: EVENTS.length, ending })
  assert.deepEqual(await fold(log, migrated!, STATE_VERSION), { read: 0, ending })
})
