import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Position } from '@instar/log'
import { positionsToReport, reportPositions, REPORT_MS } from './report-positions.ts'

const READ = { turns: { 0: 5, 1: 7, 2: 9 }, weights: { 0: 3, 1: 0 } }
const owns =
  (...partitions: number[]) =>
  (partition: number): boolean =>
    partitions.includes(partition)

test('of processes that share a topic each commits its own partitions, and one of them those of the other topics', () => {
  const of = (...partitions: number[]): string[] =>
    positionsToReport(READ, 'turns', owns(...partitions)).map(
      ({ topic, partition, offset }) => `${topic} ${partition}@${offset}`,
    )
  deepEqual(of(0), ['turns 0@5', 'weights 0@3', 'weights 1@0'])
  deepEqual(of(1, 2), ['turns 1@7', 'turns 2@9'])
  deepEqual(of(), [])
})

test('one commit runs at a time, one that fails is followed by the next, and none after the end', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const commits: { group: string; positions: readonly Position[]; end: PromiseWithResolvers<void> }[] = []
  const reporting = reportPositions(
    {
      commit: (group, positions) => {
        const end = Promise.withResolvers<void>()
        commits.push({ group, positions, end })
        return end.promise
      },
      ends: () => Promise.reject(new Error('not asked')),
    },
    { group: 'trainer.policy', read: () => READ, shared: 'turns', assigned: owns(1) },
  )
  t.mock.timers.tick(REPORT_MS)
  t.mock.timers.tick(REPORT_MS)
  deepEqual(
    commits.map(({ group, positions }) => [group, positions]),
    [['trainer.policy', [{ topic: 'turns', partition: 1, offset: 7 }]]],
  )
  commits[0]!.end.reject(new Error('away'))
  await new Promise(setImmediate)
  t.mock.timers.tick(REPORT_MS)
  equal(commits.length, 2)
  commits[1]!.end.resolve()
  reporting.stop()
  t.mock.timers.tick(REPORT_MS)
  equal(commits.length, 2)
})

test('of a topic that is read no more the end is committed, so that an old commit is not taken for a lag', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const committed = Promise.withResolvers<readonly Position[]>()
  const reporting = reportPositions(
    {
      commit: (_, positions) => Promise.resolve(committed.resolve(positions)),
      ends: (topics) => Promise.resolve(Object.fromEntries((topics ?? []).map((topic) => [topic, { 0: 40, 1: 50 }]))),
    },
    {
      group: 'trainer.policy',
      read: () => ({ updates: { 0: 3 } }),
      left: () => ['turns'],
      shared: 'updates',
      assigned: owns(0),
    },
  )
  t.mock.timers.tick(REPORT_MS)
  deepEqual(
    (await committed.promise).map(({ topic, partition, offset }) => `${topic} ${partition}@${offset}`),
    ['updates 0@3', 'turns 0@40', 'turns 1@50'],
  )
  reporting.stop()
})
