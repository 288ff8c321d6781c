/**
 * A fifth of a person's explicit feedback has the wrong sign, on the real engine and through the real scorer: without the
 * guard (`judge.contradictions` 0) it undoes much of what the rest teaches, with it most of that is learned.
 */
import { ok } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { NO_PROBES } from '@instar/publisher'
import type { SeriesPorts } from './series.ts'
import { wrongSigns } from './wrong-signs.ts'

let ports: SeriesPorts
before(async () => {
  const { model } = readSettings({}, '/')
  ports = { learner: await startLearning({ model }), model: await openModel(model), probes: NO_PROBES }
})
after(() => ports.learner.close())

test('a fifth of the signs is wrong: what is learned without the guard and with it', async (t) => {
  const settings = { updates: 5, seed: 21, share: 0.2, logLine: (line: string) => t.diagnostic(line) }
  const unguarded = await wrongSigns(ports, { ...settings, contradictions: 0 })
  const guarded = await wrongSigns(ports, { ...settings, contradictions: 4 })
  const told = JSON.stringify({ unguarded, guarded })
  ok(unguarded.long.after < 0.75, told)
  ok(guarded.long.after > unguarded.long.after + 0.15, told)
  ok(guarded.skipped.wrong > 3 * guarded.skipped.right, told)
})
