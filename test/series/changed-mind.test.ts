/**
 * Learning at the limit of the KL to the base, on the real engine: the adapter is drawn back instead of being rejected,
 * and a preference that changes half-way is followed. The long series: `npm run bench -- changed-mind`.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { NO_PROBES } from '@instar/publisher'
import { changedMind } from './changed-mind.ts'
import type { SeriesPorts } from './series.ts'

describe('learning at the limit of the KL to the base', { timeout: 175_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: NO_PROBES }
  })
  after(() => ports.learner.close())

  test('no update is rejected there, and what is wanted from half-way on is learned', async (t) => {
    const { updates, atLimit, rejected, long } = await changedMind(ports, {
      updates: 10,
      klBaseMax: 0.03,
      seed: 1,
      logLine: (line) => t.diagnostic(line),
    })
    ok(atLimit >= 2, `${atLimit} of ${updates} updates were drawn towards the base`)
    deepEqual(rejected, [])
    // Two builds gave 0.42 and 0.50 half-way, 0.17 and 0.40 at the end.
    ok(long.half > long.base, JSON.stringify(long))
    ok(long.end < long.half, JSON.stringify(long))
  })
})
