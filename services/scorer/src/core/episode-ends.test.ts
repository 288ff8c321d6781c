/** The ends of episodes on `scores`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MOST_CLOSED, NEWEST, RELEASED, type EpisodeEnded, type Event } from '@instar/events'
import { forgetWork, lookAgain } from '../app.ts'
import { EpisodeScene, taskClosed, taskTurn } from '../../../../test/kit/episode-scene.ts'
import { captured } from '../../../../test/kit/scored-history.ts'
import { endEpisodes } from './episode-ends.ts'
import { hasMissing, isComplete } from './missing-records.ts'

const [turn, closed] = [taskTurn, taskClosed]
const [one, two] = [turn('1'), turn('2', 'sort', 20)]

class Scene extends EpisodeScene {
  isEnded(): boolean {
    return isComplete(this.state.ending, 'EpisodeEnded', this.state.versions)
  }
  ends(assigned = true, most = Infinity): EpisodeEnded[] {
    return endEpisodes(this.state, 100, () => assigned, most).map(({ event }) => event)
  }
}

test('the end of an episode is recorded once, with its outcome and the turns that it covers and judges are asked about', () => {
  const scene = new Scene()
  const aborted: Event = { ...turn('x', 'sort', 21), type: 'TurnAborted', why: 'client_gone' }
  const side = { ...turn('y', 'sort', 22), kind: 'side' as const, trainable: false, reason: 'side' }
  scene.read(one, { ...two, key: 'k' }, aborted, side)
  assert.deepEqual(scene.ends(), [], 'it runs')
  const [, closing] = scene.read(turn('0', null, 5), closed({ outcome: 0.5 }))
  scene.read(turn('3', 'sort', 40))
  const [end, ...more] = scene.ends()
  assert.deepEqual(more, [])
  assert.deepEqual(end, {
    type: 'EpisodeEnded',
    session: 's',
    policy: 'policy',
    closing,
    outcome: 0.5,
    endedAt: 30,
    task: 'sort',
    key: null,
    begunAt: 10,
    turns: [one.turn, two.turn, turn('0').turn],
    part: 0,
    parts: 1,
    at: 100,
  })
  lookAgain(scene.state)
  assert.deepEqual([scene.ends(), scene.isEnded()], [[], false], 'it is on its way')
  scene.read(end!, end!)
  assert.deepEqual([scene.ends(), scene.isEnded(), scene.state.ending.appended.size], [[], true, 0])
})

test('an episode that is closed without an outcome ends without one, and once more with one', () => {
  const scene = new Scene()
  const [, , first] = scene.read(one, two, closed({ why: 'idle' }))
  const [plain] = scene.ends()
  assert.deepEqual(
    [plain?.closing, plain?.outcome, plain?.endedAt, plain?.turns, plain?.task],
    [first, null, null, [], 'sort'],
  )
  scene.read(plain!, closed({ open: [], why: 'idle', at: 35 }))
  assert.deepEqual(scene.ends(), [])
  const [later] = scene.read(closed({ open: [], outcome: -1, task: 'count', at: 40 }))
  const [end] = scene.ends()
  assert.deepEqual(
    [end?.closing, end?.outcome, end?.endedAt, end?.turns, end?.task],
    [later, -1, 40, [one.turn, two.turn], 'count'],
  )
  scene.read(end!, { ...plain!, at: 101 }, { ...end!, at: 102 })
  assert.deepEqual([scene.ends(), scene.state.ending.sessions.size], [[], 0])
  assert.equal(scene.state.ends.get('policy')?.get('s')?.outcome, -1)
})

test('an aborted episode ends without an outcome; a session without a task and without an outcome is no episode', () => {
  const scene = new Scene()
  const [, aborted] = scene.read(one, closed({ open: [], discarded: true }))
  assert.deepEqual(scene.ends(), [], 'its turn is skipped first')
  const { turn: id, session, policy, version, subject } = one
  const facts = { turn: id, session, policy, version, subject, verdicts: [], cause: aborted!, rank: null, at: 35 }
  scene.read({ type: 'TurnSkipped', reason: 'discarded', ...facts })
  assert.deepEqual([scene.ends()[0]?.closing, scene.ends().length], [aborted, 0])
  const plain = new Scene()
  plain.read(turn('1', null), closed())
  assert.deepEqual([plain.ends(), plain.state.ending.sessions.size], [[], 0])
  plain.read(turn('2', 'sort', 50))
  assert.equal(plain.ends().length, 1, 'its session was closed before its first turn with a task')
})

test('who is given the partition records what is missing, and nobody else does', () => {
  const scene = new Scene()
  scene.read(one, two, closed({ outcome: 1 }))
  assert.deepEqual(scene.ends(false), [])
  assert.deepEqual(scene.ends(true), [], 'it is looked at again when the assignment changes')
  lookAgain(scene.state)
  assert.equal(scene.ends(true).length, 1)
  forgetWork(scene.state)
  const [again] = scene.ends(true)
  assert.equal(again?.session, 's', 'a process that starts on the state appends it')
  scene.read({ ...again!, at: 90 })
  assert.deepEqual([scene.ends(), scene.state.ending.sessions.size], [[], 0], "another process's record counts as well")
})

test('nothing is recorded before all readers support the record, and all of it afterwards', () => {
  const scene = new Scene()
  scene.state.versions = RELEASED
  scene.read(one, closed({ outcome: 1, open: [one.turn] }))
  assert.deepEqual(
    [scene.ends(), hasMissing(scene.state.ending, 'EpisodeEnded', scene.state.versions), scene.isEnded()],
    [[], false, true],
  )
  scene.state.versions = NEWEST
  assert.equal(scene.isEnded(), false)
  assert.equal(scene.ends().length, 1)
})

test('a record has at most MOST_CLOSED turns; of an end in several each is needed until it is read back', () => {
  const turns = Array.from({ length: MOST_CLOSED + 1 }, (_, n) => turn(`${n}`, 'sort', n))
  const counts = (count: number): number[] => {
    const scene = new Scene()
    scene.read(...turns.slice(0, count), closed({ outcome: 1, open: [] }))
    return scene.ends().map((end) => end.turns.length)
  }
  assert.deepEqual([counts(MOST_CLOSED), counts(MOST_CLOSED + 1)], [[MOST_CLOSED], [MOST_CLOSED, 1]])
  const scene = new Scene()
  scene.read(...turns, closed({ outcome: 1, open: [] }))
  const [first, second] = scene.ends()
  assert.deepEqual([first?.part, second?.part, first?.parts, second?.parts], [0, 1, 2, 2])
  scene.read(second!)
  forgetWork(scene.state)
  const [missing, ...more] = scene.ends()
  assert.deepEqual([missing?.part, missing?.turns, more], [0, first?.turns, []])
  scene.read(missing!)
  assert.deepEqual([scene.ends(), scene.state.ending.sessions.size], [[], 0])
})

test('at most so many are handed out at a time, and the rest with the next call', () => {
  const scene = new Scene()
  for (const session of ['a', 'b', 'c']) {
    const own = { ...captured({ session, messages: [], answer: 'A', at: 1, name: '1' }), task: '' }
    scene.read(own, { ...closed({ outcome: 1 }), session, open: [own.turn] })
  }
  assert.deepEqual(
    [2, 2, 2].map((most) => scene.ends(true, most).length),
    [2, 1, 0],
  )
})

test('ends that are recorded a few at a time are found by one walk', () => {
  const scene = new Scene()
  const ENDS = 100
  let walks = 0
  class Counted extends Set<string> {
    override values() {
      walks += 1
      return super.values()
    }
    override [Symbol.iterator]() {
      return this.values()
    }
  }
  scene.state.ending.toLookAt = new Counted()
  for (let n = 0; n < ENDS; n += 1) {
    const said = { ...captured({ session: `s${n}`, messages: [], answer: 'A', at: n }), task: 'sort' }
    scene.read(said, closed({ session: `s${n}`, open: [said.turn] }))
  }
  const sessions = Array.from({ length: ENDS }, () => scene.ends(true, 1).map(({ session }) => session)).flat()
  assert.deepEqual([new Set(sessions).size, walks], [ENDS, 1])
  assert.deepEqual(scene.ends(), [])
})
