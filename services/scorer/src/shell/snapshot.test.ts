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

/** Queues that the build of an earlier version did not have; of `needed` it had no turns that were skipped. */
type Queued = 'beginning' | 'ending' | 'needed'

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
  const needed = [...state.needed].sort()
  const isSkipped = (turn: string): boolean => state.scores.get('policy')?.turns.get(turn)?.reward === null
  for (const name of without)
    if (name === 'needed') for (const turn of needed.filter(isSkipped)) state.needed.delete(turn)
    else for (const session of name === 'ending' ? ending! : beginning!) state[name].sessions.delete(session)
  await snapshot.close()
  return { read, beginning, ending, needed }
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
  const { anew, migrated: taken } = await migrated(t, EVENTS, 1, ['beginning', 'ending'])
  const { needed } = anew
  assert.deepEqual(
    [anew, taken],
    [
      { read: EVENTS.length, ...queues, needed },
      { read: 0, ...queues, needed },
    ],
  )
})

test('episodes that ran in a state of version 2 are to be begun on scores, but for those whose end was read', async (t) => {
  const queues = { beginning: ['open'], ending: ['long', 'outcome'] }
  const { anew, migrated: taken } = await migrated(t, [...EVENTS, END], 2, ['beginning'])
  const { needed } = anew
  assert.deepEqual(
    [anew, taken],
    [
      { read: EVENTS.length + 1, ...queues, needed },
      { read: 0, ...queues, needed },
    ],
  )
})

test('turns that had been skipped in a state of version 3 before an outcome covered them and they were discarded are to be skipped as discarded', async (t) => {
  /** Of three turns of a session the first and the last, in a row of its own, are skipped, the second is scored. */
  const scores = (session: string): Event[] =>
    [0, 1, 2].map((n) => {
      const { turn: id } = turn(session, n, 'sort')
      const facts = {
        turn: id,
        session,
        policy: 'policy',
        version: 0,
        subject: 'u',
        verdicts: [],
        cause: 'c',
        rank: null,
        at: 55,
      }
      return n === 1
        ? { type: 'TurnScored', reward: 1, judge: 'j', hint: null, hintJudge: null, ...facts }
        : { type: 'TurnSkipped', reason: 'abstained', ...facts }
    })
  const session = (name: string, outcome: number | null): Event[] => [
    ...[0, 1, 2].map((n) => turn(name, n, 'sort')),
    closed(name, outcome),
    ...scores(name),
  ]
  const aborted = (name: string): Event => ({ ...closed(name, null), open: [], discarded: true, at: 60 }) as Event
  const events = [...session('ended', 1), aborted('ended'), ...session('aborted', null), aborted('aborted')]
  const told = [...events, ...session('kept', -1)]
  const { anew, migrated: taken } = await migrated(t, told, 3, ['needed'])
  // A scored turn of an aborted episode was needed before.
  const needed = [0, 1, 2].map((n) => turn('ended', n, 'sort').turn).concat(turn('aborted', 1, 'sort').turn)
  assert.deepEqual([anew.needed, taken.needed, taken.read], [needed.toSorted(), needed.toSorted(), 0])
})
