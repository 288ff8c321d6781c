/** The beginnings of episodes on `scores`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NEWEST, RELEASED, type EpisodeBegun, type Event } from '@instar/events'
import { decide, forgetWork, lookAgain } from '../app.ts'
import { EpisodeScene, taskClosed, taskTurn } from '../../../../test/kit/episode-scene.ts'
import { captured } from '../../../../test/kit/scored-history.ts'
import { beginEpisodes } from './episode-begins.ts'
import { areRecorded, hasEpisodes } from './episode-records.ts'

const [turn, closed] = [taskTurn, taskClosed]

class Scene extends EpisodeScene {
  begins(assigned = true, most = Infinity): EpisodeBegun[] {
    return beginEpisodes(this.state, 100, () => assigned, most).map(({ event }) => event)
  }
  get missing(): number {
    return this.state.beginning.sessions.size
  }
}

test('the beginning of an episode is recorded once, with the time and key of the first turn of its session', () => {
  const scene = new Scene()
  scene.read({ ...turn('0', null, 5), key: 'k' })
  assert.deepEqual(scene.begins(), [], 'no turn names a task')
  scene.read(turn('1'), turn('2', 'sort', 20))
  const [begin, ...more] = scene.begins()
  assert.deepEqual(more, [])
  assert.deepEqual(begin, {
    type: 'EpisodeBegun',
    session: 's',
    policy: 'policy',
    task: 'sort',
    key: 'k',
    begunAt: 5,
    at: 100,
  })
  lookAgain(scene.state)
  assert.deepEqual([scene.begins(), areRecorded(scene.state)], [[], false], 'it is on its way')
  assert.deepEqual(scene.counts(begin!, begin!), [true, false])
  scene.read(turn('3', 'another', 25))
  assert.deepEqual([scene.begins(), areRecorded(scene.state)], [[], true])
  assert.deepEqual([scene.missing, scene.state.beginning.appended.size], [0, 0])
})

test('an episode begins with a turn that a batch may use', () => {
  const aborted: Event = { ...turn('1'), type: 'TurnAborted', why: 'client_gone' }
  const unused: Event[] = [
    aborted,
    { ...turn('2'), trainable: false, reason: 'no_train' },
    { ...turn('3'), type: 'TurnSampled' },
    turn('4', null),
  ]
  const scene = new Scene()
  scene.read(...unused)
  assert.deepEqual([scene.begins(), scene.missing], [[], 0])
  scene.read({ ...turn('5', '', 40), policy: 'other' })
  const [begin] = scene.begins()
  assert.deepEqual([begin?.policy, begin?.task, begin?.begunAt], ['other', 'sort', 10], 'another turn named the task')
  scene.read(begin!, turn('6', 'sort', 50))
  assert.deepEqual(
    scene.begins().map(({ policy }) => policy),
    ['policy'],
  )
})

test('a task that is named later is recorded once more, whichever turn names it', () => {
  for (const names of [turn('2', 'sort', 20), { ...turn('2', 'sort', 20), trainable: false, policy: 'other' }]) {
    const scene = new Scene()
    scene.read(turn('1', ''))
    const [unnamed] = scene.begins()
    assert.equal(unnamed?.task, '')
    scene.read(unnamed!, turn('3', '', 15))
    assert.deepEqual(scene.begins(), [])
    scene.read(names)
    const [named, ...more] = scene.begins()
    assert.deepEqual([named?.task, named?.policy, more], ['sort', 'policy', []])
    assert.deepEqual(scene.counts({ ...unnamed!, at: 101 }, named!, { ...unnamed!, at: 102 }), [false, true, false])
    assert.deepEqual([scene.begins(), scene.missing], [[], 0])
  }
  const scene = new Scene()
  scene.read(turn('1', ''))
  const [unnamed] = scene.begins()
  scene.read(turn('2', 'sort', 20), unnamed!)
  assert.equal(scene.begins()[0]?.task, 'sort', 'it was named before the first record was read back')
})

test('a session that is closed before its beginning was recorded has none', () => {
  const scene = new Scene()
  scene.read(turn('1'), closed({ outcome: 1 }))
  assert.deepEqual([scene.missing, scene.begins(), hasEpisodes(scene.state)], [0, [], true])
  const [end] = decide(scene.state, { idleMs: 1, judgesNeedNextState: true, staleness: null, waiting: null }, 100)
    .flatMap((output) => (output.do === 'append' ? [output.event] : []))
    .filter(({ type }) => type === 'EpisodeEnded')
  assert.ok(end)
  scene.read(end, turn('2', 'sort', 50))
  assert.deepEqual([scene.missing, scene.begins()], [0, []])
})

test('behind the end of the session its beginning does not count, in whatever order turns and scores are read', () => {
  const begun: EpisodeBegun = {
    type: 'EpisodeBegun',
    session: 's',
    policy: 'policy',
    task: 'sort',
    key: null,
    begunAt: 10,
    at: 100,
  }
  const ended: Event = {
    ...begun,
    type: 'EpisodeEnded',
    closing: 'c',
    outcome: null,
    endedAt: null,
    turns: [],
    part: 0,
    parts: 1,
  }
  const ahead = new Scene()
  assert.deepEqual(ahead.counts(ended, begun, turn('1')), [true, false, true])
  assert.deepEqual([ahead.missing, ahead.begins()], [0, []])
  const behind = new Scene()
  behind.read(turn('1'))
  assert.equal(behind.missing, 1)
  assert.deepEqual(behind.counts(ended), [true])
  assert.deepEqual([behind.missing, behind.begins()], [0, []])
  const between = new Scene()
  assert.deepEqual(between.counts(begun, ended, begun), [true, true, false])
  assert.equal(between.state.begins.get('policy')?.has('s'), false, 'the end says all of it')
})

test('who is given the partition records what is missing, and nobody else does', () => {
  const scene = new Scene()
  scene.read(turn('1'))
  assert.deepEqual(scene.begins(false), [])
  assert.deepEqual(scene.begins(true), [], 'it is looked at again when the assignment changes')
  lookAgain(scene.state)
  assert.equal(scene.begins(true).length, 1)
  forgetWork(scene.state)
  const [again] = scene.begins(true)
  assert.equal(again?.session, 's', 'a process that starts on the state appends it')
  scene.read({ ...again!, at: 90 })
  assert.deepEqual([scene.begins(), scene.missing], [[], 0], "another process's record counts as well")
})

test('nothing is recorded before all readers support the record, and all of it afterwards', () => {
  const scene = new Scene()
  scene.state.versions = new Map([...RELEASED, ['EpisodeEnded', 1]])
  scene.read(turn('1'))
  assert.deepEqual([scene.begins(), hasEpisodes(scene.state), areRecorded(scene.state)], [[], false, true])
  scene.state.versions = NEWEST
  assert.deepEqual([hasEpisodes(scene.state), areRecorded(scene.state)], [true, false])
  assert.equal(scene.begins().length, 1)
})

test('at most so many are handed out at a time, and the rest with the next call', () => {
  const scene = new Scene()
  for (const session of ['a', 'b', 'c'])
    scene.read({ ...captured({ session, messages: [], answer: 'A', at: 1, name: '1' }), task: '' })
  assert.deepEqual(
    [2, 2, 2].map((most) => scene.begins(true, most).length),
    [2, 1, 0],
  )
})

test('a turn of an episode whose beginning is known costs no walk over the turns of its session', () => {
  const walks = (begun: boolean): number => {
    const scene = new Scene()
    scene.read(turn('1', ''))
    if (begun) scene.read(scene.begins()[0]!)
    const session = scene.state.turns.sessions.get('s')!
    let count = 0
    const { turns } = session
    Object.defineProperty(turns, 'filter', { value: (...more: [never]) => ((count += 1), [...turns].filter(...more)) })
    for (let n = 2; n < 52; n += 1) scene.read(turn(`${n}`, '', 10 * n))
    return count
  }
  assert.deepEqual([walks(true), walks(false)], [0, 0])
})
