/** Each code that a service writes has words here: the codes are read from the sources that write them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { gateReason, UNTRAINED_CODES, untrained, waits, WORDED } from './reasons.ts'

const ROOT = path.join(import.meta.dirname, '../../..')

/** The codes in a part of a file, from `from` to the next `to`. Fails if the file has no such part. */
const codes = (file: string, from: string, to: string, pattern = /'([a-z]+(?:_[a-z\d]+)*)'/g): string[] => {
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  const begin = text.indexOf(from)
  const end = text.indexOf(to, begin + from.length)
  assert.ok(begin >= 0 && end > begin, `${file} has no part from ${from} to ${to}`)
  return [...text.slice(begin, end).matchAll(pattern)].map(([, code]) => code!)
}

const without = (all: readonly string[], ...others: string[]): string[] => all.filter((code) => !others.includes(code))

test('each reason why a turn is not trained on has words', () => {
  const exactness = 'packages/engine/src/protocols/exactness.ts'
  const written = [
    ...without(codes('services/gateway/src/capture/core/turn.ts', 'export const whyNotTrainable', '\n\n'), 'none'),
    ...codes('services/gateway/src/import/core/exact.ts', 'export type Inexact', '\n\n'),
    ...codes(exactness, 'export const tokenFault', '\n\n', /\? '([a-z_]+)'/g),
    ...codes(exactness, 'export const inexactness', '\n\n'),
    ...codes('services/scorer/src/core/judgement.ts', 'const winner = ', 'const hinted', /\? '([a-z_]+)'/g),
    ...codes('services/scorer/src/core/judgement.ts', "'judge_failed' :", '\n'),
    ...codes('services/scorer/src/core/decide.ts', 'import', 'export const stillOurs', /skipped\([^']*'([a-z_]+)'/g),
    ...codes('services/scorer/src/core/decide.ts', 'export type PassedOver', '\n\n'),
    ...codes('services/scorer/src/core/guards.ts', 'export const whyNoPraise', ' =>'),
    ...codes('services/scorer/src/core/duplicates.ts', "reason: 'duplicate'", '}'),
    ...codes('services/scorer/src/core/claims.ts', 'const UNAGREED', '\n'),
    ...codes('services/scorer/src/core/asked-alone.ts', 'const ASKED_ALONE', '\n'),
    ...codes('services/scorer/src/app.ts', "reason: 'unreadable'", '}'),
    ...codes('services/trainer/src/core/batch.ts', 'if (version !== null && !reasons', 'bytes +='),
    ...without(codes('services/trainer/src/core/pending.ts', 'export const unusable', '\n\n'), 'complete'),
    'aborted',
  ]
  assert.ok(new Set(written).size >= 35, `${new Set(written).size} codes were found`)
  const missing = [...new Set(written)].filter((code) => !(code in WORDED.untrained))
  assert.deepEqual(missing, [])
  for (const [code, words] of UNTRAINED_CODES) {
    assert.match(words, /^[A-Z].*\.$/, code)
    assert.equal(untrained(code), words)
  }
  assert.equal(untrained('of_tomorrow'), 'of tomorrow', 'a code of a later build is shown as it is')
  assert.equal(untrained(null), null)
})

test('each reason of the gate, and each state of the trainer and the gate, has words', () => {
  const gate = codes('services/publisher/src/core/gate.ts', 'export const checkCandidate', '\n}', /rejected\('(\w+)'/g)
  assert.ok(gate.length >= 14)
  for (const code of [...gate, 'stale_parent']) assert.ok(code in WORDED.rejected && gateReason(code) !== code, code)
  const labels = 'packages/process/src/metrics/labels.ts'
  const states = [
    ...codes(labels, 'export const TRAINER_WAITS', ']'),
    ...codes(labels, 'export const PUBLISHER_WAITS', ']'),
  ]
  assert.ok(states.length >= 20)
  for (const code of states) assert.ok(code in WORDED.waits && waits(code) !== code, code)
})
