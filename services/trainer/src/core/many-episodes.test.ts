/** Many episodes that are over: stale ones keep no fresh ones from a batch, and a batch of many costs one pass. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openMemoryLog, openSnapshots } from '@instar/log'
import { EpisodeLine } from '../../../../test/kit/episode-line.ts'
import { OPTIONS } from '../../../../test/kit/trainer-line.ts'
import { stateOfSnapshot } from '../shell/snapshot.ts'
import { countEpisodes } from './batch.ts'
import { decide } from './decide.ts'
import { MAX_EPISODES } from './episodes.ts'

const SETTINGS = { ...OPTIONS, settings: { rules: 2 } }
const STATES = ['in memory', 'stored'] as const

const lineOf = async (t: TestContext, where: (typeof STATES)[number]): Promise<EpisodeLine> => {
  if (where === 'in memory') return new EpisodeLine()
  const folder = mkdtempSync(join(tmpdir(), 'instar-many-episodes-'))
  const snapshot = openSnapshots(folder, { records: 1e9, ms: Infinity, cacheWeight: 1e6 }).of('trainer', {
    number: 1,
    migrations: {},
  })
  const state = stateOfSnapshot(snapshot, 'policy')
  await snapshot.open(openMemoryLog())
  const line = new EpisodeLine(state)
  t.after(async () => {
    await snapshot.close({ save: false })
    rmSync(folder, { recursive: true, force: true })
  })
  return line
}

const add = (line: EpisodeLine, name: string, count: number, version: number, task: (i: number) => string): void => {
  for (let i = 0; i < count; i += 1) {
    const reward = i % 2 ? 1 : -1
    line.turns(`${name}${i}`, [reward], { task: task(i), at: line.offset, version })
    line.end(`${name}${i}`, reward, line.offset)
  }
}

/** Items of arrays that `run` copies, goes through or moves. */
const arrayWork = (run: () => void): number => {
  let items = 0
  const { slice, filter, toSorted, splice } = Array.prototype
  const counted =
    (method: (...args: never[]) => unknown, cost: (list: unknown[], at: number) => number) =>
    (list: unknown[], args: number[]): unknown => {
      items += cost(list, args[0] ?? 0)
      return Reflect.apply(method, list, args)
    }
  const methods = {
    slice: counted(slice, () => 1),
    filter: counted(filter, ({ length }) => length),
    toSorted: counted(toSorted, ({ length }) => length),
    splice: counted(splice, ({ length }, at) => length - at),
  }
  for (const [name, method] of Object.entries(methods))
    Object.defineProperty(Array.prototype, name, {
      value(this: unknown[], ...args: number[]) {
        return method(this, args)
      },
      configurable: true,
      writable: true,
    })
  try {
    run()
  } finally {
    for (const [name, value] of Object.entries({ slice, filter, toSorted, splice }))
      Object.defineProperty(Array.prototype, name, { value, configurable: true, writable: true })
  }
  return items
}

for (const where of STATES)
  for (const [what, task] of [
    ['groups', (i: number) => `t${i >> 2}`],
    ['episodes without a task', () => ''],
  ] as const)
    test(`more stale ${what} than a decision examines keep none of the head from a batch, ${where}`, async (t) => {
      const line = await lineOf(t, where)
      add(line, 'stale', what === 'groups' ? 4 * MAX_EPISODES + 4 : MAX_EPISODES + 1, 9, task)
      assert.deepEqual(decide(line.state, SETTINGS, 1e6), { do: 'wait', why: 'turns' })
      assert.deepEqual(countEpisodes(line.state, SETTINGS, 1e6), { waiting: 0, beyond: 0 })
      add(line, 'fresh', 16, 0, (i) => `f${i >> 2}`)
      const sealed = line.seal(SETTINGS, 1e6)
      assert.deepEqual([...new Set(sealed?.items.map(({ version }) => version))], [0])
      assert.equal(sealed?.items.length, 16)
      assert.equal(sealed?.dropped.length, what === 'groups' ? 2000 : MAX_EPISODES + 1)
    })

for (const where of STATES)
  test(`a decision costs the same with 8 and ${MAX_EPISODES + 88} stale groups, ${where}`, async (t) => {
    const works = []
    for (const stale of [8, MAX_EPISODES + 88]) {
      const line = await lineOf(t, where)
      add(line, 'stale', stale, 9, () => '')
      add(line, 'fresh', 3, 0, () => '')
      decide(line.state, SETTINGS, 1e6)
      add(line, 'more', 1, 0, () => '')
      line.lookups = 0
      const items = arrayWork(() => assert.equal(decide(line.state, SETTINGS, 1e6).do, 'wait'))
      works.push({ items, lookups: line.lookups })
    }
    assert.deepEqual(works[1], works[0])
  })

test('groups become usable and stale with the head, whatever else changes', () => {
  const line = new EpisodeLine()
  add(line, 'next', 2 * MAX_EPISODES, 1, () => '')
  add(line, 'first', 20, 0, () => '')
  const settings = { ...SETTINGS, staleness: 0 }
  assert.deepEqual(countEpisodes(line.state, settings, 1e6), { waiting: 0, beyond: 0 })
  assert.equal(line.seal(settings, 1e6)?.items.filter(({ version }) => version === 0).length, 16)
  line.publish()
  // What was dropped with the first batch is no longer pending.
  add(line, 'later', MAX_EPISODES + 7, 1, () => '')
  assert.deepEqual(countEpisodes(line.state, settings, 1e6), { waiting: 0, beyond: 7 })
  assert.equal(line.seal(settings, 1e6)?.items.filter(({ version }) => version === 1).length, 16)
})

for (const where of STATES)
  test(`a decision after a batch of 64 episodes of one task costs in proportion to those that wait, ${where}`, async (t) => {
    const settings = { ...SETTINGS, batchSize: 64, batchMax: 64 }
    for (const count of [400, 1600]) {
      const line = await lineOf(t, where)
      add(line, 'e', count, 0, () => 'support')
      const first = arrayWork(() => void decide(line.state, settings, 1e6))
      assert.ok(first < 8 * count, `the first decision on ${count}: ${first}`)
      assert.equal(line.seal(settings, 1e6)?.items.length, 64)
      line.publish()
      const next = arrayWork(() => void decide(line.state, settings, 1e6))
      assert.ok(next < 8 * count, `the next on ${count}: ${next}`)
    }
  })
