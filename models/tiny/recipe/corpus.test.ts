import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { converse } from './corpus.ts'
import { FAMILIES } from './families/index.ts'
import { everyWording } from './hints.ts'
import { NAMES, TASTES } from './people.ts'
import { checkProbe, parseProbes } from './probe.ts'
import { isCorrect, questions, splitOf } from './questions.ts'
import { seeded } from './random.ts'
import { CHARACTERS } from './families/stories.ts'
import { drawStyle, hasBold, hasBoxed, hasNumberedList, isPlain, isWarm, isWordy, tell } from './style.ts'

test('the same seed gives the same conversations, another seed others', () => {
  const digest = (seed: number): string => {
    const random = seeded(seed)
    return createHash('sha256')
      .update(JSON.stringify(Array.from({ length: 500 }, () => converse(random))))
      .digest('hex')
  }
  assert.equal(digest(1), digest(1))
  assert.notEqual(digest(1), digest(2))
})

test('no held-out question is ever part of a conversation', () => {
  const random = seeded(3)
  let questionsSeen = 0
  const heldOut = new Set(['probe', 'evaluation', 'demo'] as const)
  const kept = new Set(
    ([...heldOut] as ('probe' | 'evaluation' | 'demo')[])
      .flatMap((split) => questions({ heldOut: true, split, seed: 9, count: 400 }))
      .map((q) => q.question),
  )
  for (let i = 0; i < 4_000; i++) {
    for (const turn of converse(random).turns) {
      if (turn.role !== 'user') continue
      const first = turn.content.split('\n')[0]!
      assert.ok(!kept.has(first), first)
      if (splitOf(first) === 'train') questionsSeen++
    }
  }
  assert.ok(questionsSeen > 3_000)
})

test('the held-out splits are disjoint and large enough', () => {
  const [probe, evaluation, demo] = (['probe', 'evaluation', 'demo'] as const).map(
    (split) => new Set(questions({ heldOut: true, split, seed: 4, count: 400 }).map((q) => q.question)),
  )
  assert.equal(new Set([...probe!, ...evaluation!, ...demo!]).size, 1_200)
  for (const q of probe!) assert.equal(splitOf(q), 'probe')
  assert.deepEqual(
    questions({ heldOut: true, seed: 4, count: 30 }),
    questions({ heldOut: true, split: 'evaluation', seed: 4, count: 30 }),
  )
  for (const q of questions({ heldOut: false, seed: 4, count: 100 })) assert.equal(splitOf(q.question), 'train')
})

for (const family of FAMILIES) {
  test(`${family.name}: right answers pass in every style, wrong ones never, and the style predicates read the style back`, () => {
    const random = seeded(17)
    for (let i = 0; i < 1_500; i++) {
      const draft = family.draft(random)
      const question = { question: draft.question, family: family.name, expect: draft.expect }
      const style = drawStyle(random)
      const right = tell(random, draft.right, style)
      assert.ok(isCorrect(question, right), `${draft.question} => ${right}`)
      assert.equal(isWordy(right), style.length === 'wordy', right)
      assert.equal(isWarm(right), style.warm, right)
      assert.deepEqual(
        [hasBold(right), hasNumberedList(right), hasBoxed(right), isPlain(right)],
        [style.format === 'bold', style.format === 'numbered', style.format === 'boxed', style.format === 'plain'],
        right,
      )
      const wrong = tell(random, draft.wrong, style)
      assert.ok(!isCorrect(question, wrong), `${draft.question} => ${wrong}`)
    }
  })
}

test('a right answer beside a contradiction does not pass', () => {
  const number = { expect: { kind: 'number', value: 12, given: [7, 5] } } as const
  assert.ok(checkProbe(number, '7 plus 5 is **12**.'))
  assert.ok(checkProbe(number, '1. Start with 7.\n2. Add 5.\n3. \\boxed{12}'))
  assert.ok(!checkProbe(number, '12, or perhaps 13'))
  assert.ok(!checkProbe(number, '7 plus 6 is 12.'))
  assert.ok(!checkProbe(number, 'The numbers are 12, 7 and 5.'))
  assert.ok(!checkProbe(number, ''))
  const word = { expect: { kind: 'word', value: 'Paris', rivals: ['Rome', 'Oslo'], given: [] } } as const
  assert.ok(checkProbe(word, 'It is \\boxed{Paris}.'))
  assert.ok(!checkProbe(word, 'Paris, not Rome.'))
  assert.ok(!checkProbe(word, 'Parisian'))
  const sequence = { expect: { kind: 'sequence', value: [3, 14, 27] } } as const
  assert.ok(checkProbe(sequence, '1. 3\n2. 14\n3. 27'))
  assert.ok(!checkProbe(sequence, '3, 27, 14'))
  assert.ok(!checkProbe(sequence, '3, 14, 27, 30'))
  const members = {
    expect: { kind: 'members', count: 2, members: ['apple', 'pear', 'plum'], rivals: ['hammer'] },
  } as const
  assert.ok(checkProbe(members, '**pear and apple**'))
  assert.ok(!checkProbe(members, 'pear and pear'))
  assert.ok(!checkProbe(members, 'pear, apple and hammer'))
  assert.ok(!checkProbe(members, 'pear, apple and plum'))
})

test('probes.jsonl holds 128 different questions of the probe split with all families', () => {
  const probes = parseProbes(readFileSync(new URL('../probes.jsonl', import.meta.url), 'utf8'))
  assert.equal(probes.length, 128)
  assert.equal(new Set(probes.map((p) => p.question)).size, 128)
  for (const probe of probes) assert.equal(splitOf(probe.question), 'probe')
  assert.deepEqual(new Set(probes.map((p) => p.family)), new Set(FAMILIES.map((f) => f.name)))
})

test('names with tastes, names without and characters of stories are different people', () => {
  const all = [...Object.keys(TASTES), ...NAMES, ...CHARACTERS]
  assert.equal(new Set(all).size, all.length)
})

test('hints and tastes are obeyed, and other dimensions stay mixed', () => {
  const random = seeded(23)
  const wordings = (['plain', 'long', 'warm'] as const).map((wish) => new Set(everyWording(wish, 'train')))
  const [plain, long, warm] = wordings
  const seen = { plain: 0, other: 0, hinted: 0 }
  for (let i = 0; i < 12_000; i++) {
    const { turns } = converse(random)
    const at = turns.findIndex((turn) => turn.role === 'user')
    const hint = turns[at]!.content.split('\n')[1]
    const answer = turns[at + 1]!.content
    const system = turns[0]!.role === 'system' ? turns[0]!.content : ''
    if (hint !== undefined && wordings.some((set) => set.has(hint))) seen.hinted++
    if (hint !== undefined && plain!.has(hint)) assert.ok(isPlain(answer), `${hint}: ${answer}`)
    if (hint !== undefined && long!.has(hint)) assert.ok(isWordy(answer), `${hint}: ${answer}`)
    if (hint !== undefined && warm!.has(hint)) assert.ok(isWarm(answer), `${hint}: ${answer}`)
    if (at > 1 || turns[at]!.content.includes('\n')) continue
    if (/\bBoris\b/.test(system) && turns[at]!.content.endsWith('?')) seen.plain += isPlain(answer) ? 1 : 0
    if (/\bAbena\b/.test(system)) seen.other += isPlain(answer) ? 0 : 1
  }
  assert.ok(seen.hinted > 300 && seen.plain > 5 && seen.other > 5, JSON.stringify(seen))
})
