import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeModel } from '../../src/core/reactions/model.ts'
import { augmented } from './augment.ts'
import { FOLDER, readData, rowsOf } from './data.ts'
import { learn, logitsOf } from './learn.ts'

const WEIGHTS = join(FOLDER, 'weights.bin')

test('the weights file was made from these rows by this recipe: run npm run train:reactions', () => {
  assert.equal(decodeModel(readFileSync(WEIGHTS)).data, readData().digest)
})

test('the weights file is smaller than 2 MB; a file that is cut or of another build is refused', () => {
  assert.ok(statSync(WEIGHTS).size < 2e6)
  const bytes = readFileSync(WEIGHTS)
  for (const damaged of [bytes.subarray(0, -1), bytes.subarray(0, 3), Buffer.alloc(100)])
    assert.throws(() => decodeModel(damaged), { code: 'data_unreadable' })
})

test('a row that is not as documented is told with file and line', () => {
  const row = { ctx: 1, request: 'a', answer: 'b', next: { user: 'c', tools: [] }, label: 1, wish: null, lang: 'en' }
  assert.equal(rowsOf(`${JSON.stringify(row)}\n`, 'x.jsonl').length, 1)
  for (const bad of [
    { ...row, label: 2 },
    { ...row, wish: 'shorter' },
    { ...row, label: -1 },
    { ...row, next: { user: '', tools: [] } },
    { ...row, more: 1 },
  ])
    assert.throws(() => rowsOf(`${JSON.stringify(row)}\n${JSON.stringify(bad)}\n`, 'x.jsonl'), /x\.jsonl:2/)
})

test('a context stands in one file, and its rows share request and answer', () => {
  for (const [ctx, rows] of Map.groupBy(readData().rows, (row) => row.ctx))
    assert.equal(new Set(rows.map(({ request, answer }) => JSON.stringify([request, answer]))).size, 1, `ctx ${ctx}`)
})

test('derived rows and weights are the same for the same seed and others for another', () => {
  const rows = readData().rows.slice(0, 200)
  assert.deepEqual(augmented(rows, 7), augmented(rows, 7))
  assert.notDeepEqual(augmented(rows, 7), augmented(rows, 8))
  const input = (row: number) => ({
    rows: Uint32Array.of(row, 2),
    values: Float32Array.of(1, 0.5),
    groups: Uint8Array.of(0, 1),
  })
  const examples = [0, 1].map((target) => ({ input: input(target), target, weight: 1 }))
  const settings = {
    rows: 3,
    classes: 2,
    epochs: 30,
    rate: 0.2,
    decay: 0,
    dropout: 0.2,
    groupDropout: 0,
    smoothing: 0,
    seed: 1,
  }
  const weights = learn(examples, settings)
  assert.deepEqual(learn(examples, settings), weights)
  assert.notDeepEqual(learn(examples, { ...settings, seed: 2 }), weights)
  for (const target of [0, 1]) {
    const logits = logitsOf(weights, 2, input(target))
    assert.ok(logits[target]! > logits[1 - target]!)
  }
})
