/** A log that one engine has trained, verified by another, which reports what it cannot compute bit for bit. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { findBuilt } from '@instar/policy/runtime/tfjs-node/build-folder'
import { instar } from '../kit/cli.ts'
import { open, talkTwice } from './history.ts'
import { dataFolder } from './process.ts'

type Verified = { ok: boolean; batches: { ok: boolean; mode: string; version: number | null }[] }
type Replayed = {
  equal: boolean | null
  mode: string
  batches: number
  versions: number
  first: object | null
  apart: { batch: number; distance: number } | null
}

const unbuilt = findBuilt() ? false : 'the engine tfjs-node is not built here (npm run engine:tfjs-node)'

const command = async <T>(
  data: string,
  words: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; report: T }> => {
  const { code, out, err, json } = await instar([...words, '--json'], {
    INSTAR_DATA: data,
    INSTAR_PORT: '1',
    ...env,
  })
  ok(json, `${out}${err}`)
  return { code, report: json as T }
}

for (const [learnEngine, otherEngine] of [
  ['onnx', 'wasm'],
  ['tfjs-node', 'onnx'],
] as const) {
  test(
    `versions served by onnx and trained by ${learnEngine} verify on it, and on ${otherEngine} within its tolerance`,
    { timeout: 280_000, skip: learnEngine === 'tfjs-node' && unbuilt },
    async (t) => {
      const data = dataFolder()
      const place = await open(data, { engine: 'onnx', learnEngine })
      match(place.serving, /^onnx; /)
      match(place.learning ?? '', new RegExp(`^${learnEngine} `))
      await talkTwice(place, 0)
      await place.stop()

      const same = await command<Verified>(data, ['verify', 'all'], { INSTAR_LEARN_ENGINE: learnEngine })
      deepEqual([same.code, same.report.ok], [0, true])
      ok(
        same.report.batches.length >= 1 && same.report.batches.every(({ mode }) => mode === 'recompute'),
        JSON.stringify(same.report.batches),
      )
      const other = await command<Verified>(data, ['verify', 'all', '--engine', otherEngine])
      deepEqual([other.code, other.report.ok], [0, true])
      ok(
        other.report.batches.every(({ mode, ok: holds }) => mode === 'digests' && holds),
        JSON.stringify(other.report.batches),
      )

      const again = await command<Replayed>(data, ['replay', '--branch', 'again', '--engine', learnEngine])
      deepEqual([again.code, again.report.equal, again.report.mode, again.report.apart], [0, true, 'recompute', null])
      const elsewhere = await command<Replayed>(data, ['replay', '--branch', 'elsewhere', '--engine', otherEngine])
      deepEqual(
        [elsewhere.code, elsewhere.report.equal, elsewhere.report.mode, elsewhere.report.first],
        [0, null, 'tolerance', null],
      )
      equal(elsewhere.report.batches, again.report.batches)
      const { distance } = elsewhere.report.apart!
      t.diagnostic(`distance of the adapters ${distance.toExponential(1)} over ${again.report.batches} batches`)
      ok(distance > 0 && distance < 2e-3, `${distance}`)
    },
  )
}
