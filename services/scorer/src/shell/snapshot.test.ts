/** The migrations of the scorer's state. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
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
  turn('plain and open', 0, null),
  // Its end was read before its closing.
  turn('ahead', 0, 'sort'),
]
/** As a build of version 2 may have read it. */
const END: Event = {
  type: 'EpisodeEnded',
  session: 'ahead',
  policy: 'policy',
  closing: 'c',
  outcome: null,
  endedAt: null,
  task: 'sort',
  key: null,
  begunAt: 0,
  turns: [],
  part: 0,
  parts: 1,
  at: 60,
}

/** Queues that the build of an earlier version did not have. */
type Queued = 'beginning' | 'ending'

/** `without`: as a build without these queues leaves the state. */
const fold = async (log: EventLog, folder: string, version: StateVersion, without: readonly Queued[] = []) => {
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
  const [beginning, ending] = [state.beginning, state.ending].map(({ sessions }) => [...sessions].sort())
  for (const name of without)
    for (const session of name === 'ending' ? ending! : beginning!) state[name].sessions.delete(session)
  await snapshot.close()
  return { read, beginning, ending }
}

const migrated = async (t: TestContext, events: readonly Event[], number: number, without: readonly Queued[]) => {
  const [before, anew] = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'instar-scorer-')))
  t.after(() => [before, anew].forEach((folder) => rmSync(folder!, { recursive: true })))
  const log = openMemoryLog()
  await log.append(events.map((event) => encodeEvent(event)))
  await fold(log, before!, { number, migrations: {} }, without)
  return { anew: await fold(log, anew!, STATE_VERSION), migrated: await fold(log, before!, STATE_VERSION) }
}

test('episodes that had ended in a state of version 1 are to be ended on scores, and those that ran begun, as after reading the log again', async (t) => {
  const queues = { beginning: ['ahead', 'open'], ending: ['long', 'outcome'] }
  assert.deepEqual(await migrated(t, EVENTS, 1, ['beginning', 'ending']), {
    anew: { read: EVENTS.length, ...queues },
    migrated: { read: 0, ...queues },
  })
})

test('episodes that ran in a state of version 2 are to be begun on scores, but for those whose end was read', async (t) => {
  const queues = { beginning: ['open'], ending: ['long', 'outcome'] }
  assert.deepEqual(await migrated(t, [...EVENTS, END], 2, ['beginning']), {
    anew: { read: EVENTS.length + 1, ...queues },
    migrated: { read: 0, ...queues },
  })
})
