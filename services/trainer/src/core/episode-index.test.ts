/** The index of episodes against one that is built anew for each decision, on the trainer's state in memory and in a snapshot. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openMemoryLog, openSnapshots, type Snapshot } from '@instar/log'
import { EpisodeLine } from '../../../../test/kit/episode-line.ts'
import { OPTIONS } from '../../../../test/kit/trainer-line.ts'
import { stateOfSnapshot } from '../shell/snapshot.ts'
import { decide } from './decide.ts'
import { EpisodeIndex, MAX_TOUCHED } from './episode-index.ts'
import { countEpisodes, episodeGroups, MAX_EPISODES, nextReadyAt } from './episodes.ts'
import { initialState } from './state.ts'

const SETTINGS = { ...OPTIONS, batchSize: 4, taskEpisodes: 2, taskWaitMs: 20, settings: { rules: 2 } }

const random = (seed: number) => (): number => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed / 2 ** 32
}

const storedLine = async (t: TestContext): Promise<{ line: EpisodeLine; snapshot: Snapshot }> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-episodes-'))
  const snapshot = openSnapshots(folder, { records: 1e9, ms: Infinity, cacheWeight: 50 }).of('trainer', {
    number: 1,
    migrations: {},
  })
  const state = stateOfSnapshot(snapshot, 'policy')
  await snapshot.open(openMemoryLog())
  t.after(async () => {
    await snapshot.close({ save: false })
    rmSync(folder, { recursive: true, force: true })
  })
  return { line: new EpisodeLine(state), snapshot }
}

test('episodes of which all turns are taken are in no group of a later decision, however many', async (t) => {
  const { line } = await storedLine(t)
  let sealed = 0
  for (let i = 0; i < MAX_EPISODES + 40; i += 1) {
    for (const name of [`a${i}`, `b${i}`]) line.turns(name, [1, -1], { task: `t${i}`, version: sealed })
    for (const [name, outcome] of [
      [`a${i}`, 1],
      [`b${i}`, -1],
    ] as const)
      line.end(name, outcome, 5 + i)
    assert.ok(line.seal(SETTINGS, 10_000 + i), `batch ${i}`)
    sealed += 1
    line.publish()
  }
  assert.deepEqual(countEpisodes(line.state, [sealed], SETTINGS, 20_000), { waiting: 0, beyond: 0 })
})

for (const seed of [1, 2, 3, 4, 5, 6])
  test(`on a random history the index gives what one that is built anew does, stored or not (seed ${seed})`, async (t) => {
    const { line: stored, snapshot } = await storedLine(t)
    const memory = new EpisodeLine(initialState('policy'))
    const lines = [memory, stored]
    const chance = random(seed)
    const pick = (n: number): number => Math.floor(chance() * n)
    let version = 0
    let settings = SETTINGS
    for (let step = 0; step < 300; step += 1) {
      const now = 100 + step
      const name = `${['', 'k:', 'q:'][pick(3)]}e${pick(24)}`
      const what = chance()
      const at = now - pick(30)
      const scores = Array.from({ length: 1 + pick(3) }, () => [1, -1, null][pick(3)] ?? null)
      const task = [null, '', 't', 'u'][pick(4)] ?? null
      const outcome = [1, -1, null][pick(3)] ?? null
      const back = pick(4)
      const discarded = chance() < 0.1 && outcome === null
      const key = name.includes(':') ? name.slice(0, 1) : null
      for (const line of lines) {
        if (what < 0.55) line.turns(name, scores, { task, at, key, version: Math.max(0, version - back) })
        else if (what < 0.85) line.end(name, outcome, at, discarded ? { discarded } : {})
        else if (line.seal(SETTINGS, now)) line.publish()
      }
      version = memory.state.weights.lines.get('policy')!.head
      if (step % 37 === 0) {
        void snapshot.after({ topic: 'turns', partition: 0, offset: step, id: '' })
        await snapshot.save()
      }
      const versions = [version, version - 1]
      if (chance() < 0.1) settings = { ...SETTINGS, taskEpisodes: 1 + pick(3) }
      const looks = chance() < 0.3
      const views = lines.flatMap(({ state }) =>
        [state, { ...state, index: new EpisodeIndex() }].map((one) => ({
          groups: episodeGroups(one, versions, settings, now),
          counts: countEpisodes(one, versions, settings, now),
          next: nextReadyAt(one, versions, settings, now),
          unusable: looks ? one.index.unusable(one, versions).toSorted() : [],
        })),
      )
      for (const view of views) assert.deepEqual(view, views[1], `step ${step}`)
    }
  })

test('with more running episodes than changes that are kept, a decision looks at those that changed', () => {
  const line = new EpisodeLine()
  for (let i = 0; i <= MAX_TOUCHED; i += 1) line.turns(`e${i}`, [1], { task: `t${i}` })
  const options = { ...SETTINGS, batchSize: 16 }
  assert.equal(decide(line.state, options, 9).do, 'wait')
  let looks = 0
  const get = line.state.episodes.get.bind(line.state.episodes)
  line.state.episodes.get = (session) => {
    looks += 1
    return get(session)
  }
  for (let i = 0; i < 8; i += 1) {
    line.end(`e${i}`, 1)
    decide(line.state, options, 9)
  }
  assert.ok(looks < 200, `${looks} queues`)
})

test('more changes than are kept make the next decision, and the next batch, look at all episodes', () => {
  const line = new EpisodeLine()
  const look = () => [
    episodeGroups(line.state, [0], SETTINGS, 9).ready.map(({ turns }) => turns.length),
    line.state.index.unusable(line.state, [0]).length,
  ]
  line.turns('late', [1], { task: 't', version: 7 })
  assert.deepEqual(look(), [[], 1])
  line.turns('a', [1, 1], { task: 'a' })
  line.turns('b', [1], { task: 'a' })
  for (const name of ['a', 'b', 'late']) line.end(name, 1)
  line.turns('late two', [1], { task: 't', version: 7 })
  for (let i = 0; i <= MAX_TOUCHED; i += 1) line.turns(`e${i}`, [1], { task: `t${i}` })
  assert.deepEqual(look(), [[3], 2])
})
