/** The first outcome of a batch stands; the fold is held to the simulation's own reading of the log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { trainingOf } from '../../../../test/simulation/history/chains.ts'
import { computedUpdate, sealedBatch } from '../../../../test/kit/updates.ts'
import { encodeEvent, recordId } from '../index.ts'
import type { Event, Logged, UpdatesEvent } from '../records.ts'
import { foldUpdates, initialUpdates, updateLine } from './updates.ts'

const sealed = (prev: string, number: number): UpdatesEvent => sealedBatch({ prev, number, at: number })
const failed = (prev: string, batch: string, at: number): UpdatesEvent => ({
  type: 'UpdateFailed',
  prev,
  policy: 'policy',
  batch,
  number: 1,
  reason: `reason ${at}`,
  at,
})
const computed = (prev: string, batch: string, at: number): UpdatesEvent => computedUpdate(at, { prev, batch })
const OUTCOMES = { computed, failed }

for (const first of ['computed', 'failed'] as const)
  for (const second of ['computed', 'failed'] as const)
    test(`a batch that was ${first} and then ${second} is ${first}, and what follows goes on from the second record`, () => {
      const state = initialUpdates()
      const records: Logged<UpdatesEvent>[] = []
      const fold = (event: UpdatesEvent): { id: string; counted: boolean; why?: string } => {
        const record = encodeEvent(event as Event)
        const { topic, key } = record
        const offset = records.length
        const logged = { id: recordId(record), topic, key, partition: 0, offset, timestamp: 1, event }
        records.push(logged as Logged<UpdatesEvent>)
        return { id: logged.id, ...foldUpdates(state, logged as Logged<UpdatesEvent>) }
      }
      const batch = fold(sealed('', 1))
      const one = fold(OUTCOMES[first](batch.id, batch.id, 2))
      const two = fold(OUTCOMES[second](one.id, batch.id, 3))
      const next = fold(sealed(two.id, 2))
      assert.deepEqual(
        [one, two, next].map(({ counted, why }) => [counted, why ?? null]),
        [
          [true, null],
          [false, 'settled'],
          [true, null],
        ],
      )
      const line = updateLine(state, 'policy')
      const [held] = line.batches
      assert.equal(held?.status, first)
      assert.deepEqual(
        [held.update?.id ?? null, held.reason],
        first === 'computed' ? [one.id, null] : [null, 'reason 2'],
      )
      assert.deepEqual([...line.byUpdate], first === 'computed' ? [[one.id, batch.id]] : [])
      assert.deepEqual([line.count, line.failed], [2, first === 'failed' ? 1 : 0])
      const oracle = trainingOf(records.map(({ id, offset, event }) => ({ id, at: offset, partition: 0, event })))
      assert.equal(line.chain.tip, oracle.tip)
      assert.deepEqual(
        oracle.batches.map(({ fact, outcome }) => [fact.id, outcome?.id ?? null]),
        [
          [batch.id, one.id],
          [next.id, null],
        ],
      )
    })
