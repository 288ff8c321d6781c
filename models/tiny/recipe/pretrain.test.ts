import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { batches } from './batches.ts'
import { encoder } from './bpe.ts'
import { pieces } from './chat.ts'
import { converse } from './corpus.ts'
import { trainedBpe } from './make-tokenizer.ts'
import { lessons, pretrain, schedule } from './pretrain.ts'
import type { Options, Round } from './pretrain.ts'
import { seeded } from './random.ts'

const encode = encoder(trainedBpe())

const round = (steps: number, peak = 1): Round => ({ steps, peak, turn: 0.4, lessons: [0.9, 0.2] })

test('learning rates are constant for a fifth of a round and then fall to almost nothing', () => {
  const rounds = [round(100), round(50, 0.5)]
  assert.equal(schedule(1, rounds), 1)
  assert.equal(schedule(20, rounds), 1)
  assert.ok(Math.abs(schedule(61, rounds) - 0.5) < 1e-12)
  assert.ok(Math.abs(schedule(100, rounds) - 1 / 80) < 1e-12)
  assert.equal(schedule(101, rounds), 0.5)
  assert.ok(Math.abs(schedule(150, rounds) - 0.5 / 40) < 1e-12)
})

test('lessons give way to conversations', () => {
  const rounds = [round(100), { ...round(50), lessons: [0.7, 0.6] as const }]
  assert.deepEqual(
    [0, 39, 40, 99, 100, 120, 149, 150].map((n) => lessons(n, rounds)),
    [0.9, 0.9, 0.2, 0.2, 0.7, 0.6, 0.6, 0.6],
  )
})

test('batches keep to the limit, are the same for the same seed, and train only what the assistant says right', () => {
  const stream = batches(encode, 5, 1_000, () => 0)
  const again = batches(encode, 5, 1_000, () => 0)
  const text = new Map<string, number>()
  const random = seeded(5)
  for (let i = 0; i < 700; i++) {
    random()
    const all = pieces(converse(random))
    text.set(
      all.flatMap((p) => encode(p.text)).join(),
      all.reduce((sum, p) => sum + p.weight * encode(p.text).length, 0),
    )
  }
  let positions = 0,
    padding = 0,
    known = 0
  for (let i = 0; i < 40; i++) {
    const batch = stream.next().value
    assert.deepEqual(batch, again.next().value)
    assert.ok(batch.B * batch.T <= 1_000 || batch.B === 1)
    for (let b = 0; b < batch.B; b++) {
      const ids = [...batch.ids.subarray(b * batch.T, (b + 1) * batch.T)]
      while (ids.at(-1) === 0) ids.pop()
      padding += batch.T - ids.length
      const weights = batch.tokenWeights.subarray(b * batch.T, (b + 1) * batch.T)
      assert.ok(weights.slice(ids.length - 1).every((w) => w === 0))
      const expected = text.get(ids.join())
      if (expected === undefined) continue
      known++
      assert.equal(
        weights.reduce((sum, w) => sum + w, 0),
        expected,
      )
    }
    positions += batch.B * batch.T
  }
  assert.ok(known > 200, `${known} rows recognised`)
  assert.ok(padding / positions < 0.12, `${padding} of ${positions} positions are padding`)
})

test('the loss falls, and an interrupted run ends in the same bytes as one that was left alone', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pretrain-'))
  try {
    const losses: number[] = []
    const options = (out: string, report: Options['report']): Options => ({
      rounds: [round(4), round(2, 0.5)],
      threads: 1,
      seed: 3,
      out: path.join(folder, out),
      fresh: false,
      checkpointEvery: 2,
      tokens: 600,
      report,
    })
    const whole = await pretrain(
      options('whole', (_, loss) => {
        losses.push(loss)
      }),
    )
    assert.ok(losses[0]! > 7 && losses[5]! < losses[0]! - 0.5, losses.join())
    await assert.rejects(
      pretrain(
        options('cut', (step) => {
          if (step === 5) throw new Error('power cut')
        }),
      ),
      /power cut/,
    )
    const steps: number[] = []
    assert.equal(
      await pretrain(
        options('cut', (step) => {
          steps.push(step)
        }),
      ),
      whole,
    )
    assert.deepEqual(steps, [5, 6])
    assert.ok(
      existsSync(path.join(folder, 'cut', 'model.safetensors')) && !existsSync(path.join(folder, 'cut', '.pretrain')),
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
})
