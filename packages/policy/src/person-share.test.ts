/** One person whose answers are long beside many whose answers are short: the part of the update that is theirs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { uniform } from './random.ts'
import { config, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'
import { readAdapter } from './checkpoints/peft.ts'
import { completionLogprobs, ownLogprobs } from './forward.ts'
import { largestShare, personScales, type Person } from './person-share.ts'
import { createRuntime } from './runtime/runtime.ts'
import { Trainer } from './step.ts'
import { tokenWeights, type TurnTokens } from './token-weights.ts'

const near = (actual: number, expected: number): void =>
  assert.ok(Math.abs(actual - expected) < 1e-9, `${actual}, expected ${expected}`)
const scaled = (weights: readonly number[], people: readonly Person[], share?: number): number[] => {
  const scales = personScales(weights, people, share)
  return weights.map((weight, at) => weight * (scales[at] ?? 0))
}
const by = (counts: Record<string, number>): Person[] =>
  Object.entries(counts).flatMap(([subject, count]) => Array.from({ length: count }, () => ({ subject })))
const shareOf = (weights: readonly number[], people: readonly Person[], name: string): number =>
  weights.reduce((sum, weight, at) => sum + (people[at]?.subject === name ? weight : 0), 0) /
  weights.reduce((sum, weight) => sum + weight, 0)

test('three long turns of sixteen have a quarter of the weight, without the limit 48 %', () => {
  const people = by({ long: 3, a: 3, b: 3, c: 3, d: 4 })
  const weights = people.map(({ subject }) => (subject === 'long' ? 4 : 1))
  near(shareOf(weights, people, 'long'), 12 / 25)
  near(shareOf(scaled(weights, people, 0.25), people, 'long'), 0.25)
  assert.deepEqual(scaled(weights, people, 0.25).slice(3), weights.slice(3), 'the others keep theirs')
})

test('whoever has more turns than the limit has at most their share of the turns, which takes nothing from a lone person', () => {
  const people = by({ often: 12, rarely: 4 })
  const weights = people.map(({ subject }) => (subject === 'often' ? 100 : 1))
  near(shareOf(scaled(weights, people, 0.25), people, 'often'), 12 / 16)
  for (const alone of [by({ one: 16 }), Array.from({ length: 16 }, () => ({}))])
    assert.deepEqual(personScales(weights, alone, 0.25), new Array(16).fill(1))
})

test('nobody’s weight per turn grows beyond that of the longest: a person with one turn cannot gain by few turns', () => {
  const people = by({ often: 15, rarely: 1 })
  const weights = people.map(() => 1)
  assert.deepEqual(personScales(weights, people, 0.25), new Array(16).fill(1))
})

test('several beyond the limit are reduced together, and 200 random batches keep every limit', () => {
  let seed = 5
  const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
  for (let batch = 0; batch < 200; batch += 1) {
    const people = Array.from({ length: 1 + next(64) }, () => ({ subject: `s${next(6)}`, key: `k${next(3)}` }))
    const weights = people.map(() => 1 + next(200))
    const after = scaled(weights, people, 0.25)
    for (const kind of ['subject', 'key'] as const) {
      const names = people.map((person) => person[kind])
      const all = after.reduce((sum, weight) => sum + weight, 0)
      for (const name of new Set(names)) {
        const own = after.reduce((sum, weight, at) => sum + (names[at] === name ? weight : 0), 0)
        const limit = Math.max(0.25, names.filter((one) => one === name).length / names.length)
        assert.ok(own / all <= limit * 1.01, `batch ${batch}: ${name} has ${own / all} of ${limit}`)
      }
      assert.ok(largestShare(after, names) <= 1 + 1e-9)
    }
    for (const [at, weight] of after.entries()) assert.ok(weight > 0 && weight <= weights[at]! + 1e-9)
  }
})

test('the weights of policy, hint and KL are those of the reduced turns; a share of 0 or none changes nothing', () => {
  const turn = (subject: string, tokens: number): TurnTokens => ({
    subject,
    key: null,
    advantage: -1,
    behaviour: new Float32Array(tokens).fill(-1),
    old: new Float32Array(tokens).fill(-1),
    hint: { without: new Float32Array(tokens).fill(-1), with: new Float32Array(tokens).fill(-2) },
  })
  const turns = [turn('long', 60), ...['a', 'b', 'c'].map((subject) => turn(subject, 20))]
  const settings = { ...exampleSettings, klWeight: 1, klFullAtAdvantage: 0, opdOverBatch: 1 }
  const total = ({ policy }: { policy: Float32Array }): number => policy.reduce((sum, weight) => sum + weight, 0)
  const [long, other] = tokenWeights(turns, { ...settings, weightShare: 0.25 })
  assert.ok(Math.abs(total(long!) - 0.25) < 1e-6 && Math.abs(total(other!) - 0.25) < 1e-6)
  near(long!.kl * 60, 0.25)
  near(long!.opd * 60, 0.25)
  assert.deepEqual(tokenWeights(turns, { ...settings, weightShare: 0 }), tokenWeights(turns, settings))
})

test('a quarter of the turns with wrong rewards and long answers turns an update round; under the limit it does not', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'example')
  const [SHORT, MEASURED, LONG] = [6, 12, 24]
  const next = uniform(3)
  const prompt = (): number[] => Array.from({ length: 30 }, () => Math.floor(next() * config.vocabulary))
  const logprobs = async (prompt: number[], completion: number[], slot: number | null): Promise<number[]> => {
    const [rows] = await completionLogprobs(runtime, [{ prompt, completion, temperature: 1, slot }])
    return [...ownLogprobs(rows as Float32Array, completion)]
  }
  /** Everybody's answers consist of the same token: the poisoner praises it, three others do not want it. */
  const answer = (tokens: number): number[] => new Array<number>(tokens).fill(7)
  const item = async (subject: string, tokens: number, advantage: number): Promise<TrainItem> => {
    const [asked, completion] = [prompt(), answer(tokens)]
    const behaviourLogprobs = await logprobs(asked, completion, null)
    return { prompt: asked, completion, behaviourLogprobs, temperature: 1, advantage, subject, hintPrompt: null }
  }
  const items = await Promise.all([
    ...Array.from({ length: 4 }, () => item('poisoner', LONG, 1)),
    ...Array.from({ length: 12 }, (_, i) => item(`person ${i % 3}`, SHORT, -1)),
  ])
  const fresh = Array.from({ length: 8 }, prompt)
  const settings: StepSettings = { ...exampleSettings, klWeight: 0, turnFactor: 4 }
  const gain = async (weightShare: number): Promise<{ gain: number; figures: Record<string, number> }> => {
    const { adapter, figures } = await trainer.step(items, { ...settings, weightShare }, { adapter: null, state: null })
    runtime.setAdapterSlot(1, readAdapter(adapter, config))
    let sum = 0
    for (const asked of fresh) {
      const before = await logprobs(asked, answer(MEASURED), null)
      for (const [at, value] of (await logprobs(asked, answer(MEASURED), 1)).entries()) sum += value - before[at]!
    }
    return { gain: sum / fresh.length, figures: { ...figures } }
  }
  const unguarded = await gain(0)
  const guarded = await gain(0.25)
  await runtime.close()
  assert.ok(unguarded.gain > 0, `${unguarded.gain}`)
  assert.ok(guarded.gain < 0, `${guarded.gain}`)
  assert.deepEqual([unguarded.figures.cappedTurns, guarded.figures.cappedTurns], [0, 4])
  near(unguarded.figures.subjectWeight!, 96 / 168)
  near(guarded.figures.subjectWeight!, 0.25)
})
