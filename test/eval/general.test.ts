/** People and questions for a general model; a cell with them runs on models/tiny, whose figures mean nothing here. */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSettings } from '@instar/process'
import { runCell } from '../../bench/eval/cell.ts'
import { startEngines } from '../../bench/eval/engines.ts'
import { FAMILIES, KNOWN, questionsOf } from '../../bench/eval/general/questions.ts'
import { GENERAL_WISHES } from '../../bench/eval/general/wishes.ts'
import { METHODS } from '../../bench/eval/methods/index.ts'
import { measuredFor, planOf, reactionTo } from '../../bench/eval/plan.ts'
import { GENERAL } from '../../bench/eval/population.ts'
import { FACTS } from '../../cli/src/demo/wishes/facts.ts'
import { WISHES } from '../../cli/src/demo/wishes/people.ts'
import { questionAt } from '../../cli/src/demo/wishes/topics.ts'

const root = join(import.meta.dirname, '../..')
const scenario = (name: string) => GENERAL.scenarios.find((one) => one.name === name)!
const { short, plain, list, long } = GENERAL_WISHES

test('short is 25 words at most, long 35 at least, plain has no list, heading or bold, a list an item', () => {
  ok(short.satisfied('word '.repeat(25)))
  ok(!short.satisfied('word '.repeat(26)))
  ok(!short.satisfied(''))
  ok(long.satisfied('word '.repeat(35)))
  ok(!long.satisfied('word '.repeat(34)))
  for (const text of ['Do this:\n1. Bake', 'So:\n- bake', '* Bake']) {
    ok(!plain.satisfied(text), text)
    ok(list.satisfied(text), text)
  }
  for (const text of ['## Bread\nBake', 'Bake it **well**']) ok(!plain.satisfied(text), text)
  ok(plain.satisfied('Bake it for 20 minutes - then wait.'))
  ok(!list.satisfied('Bake it for 20 minutes - then wait.'))
})

test('questions: families in turn, no question twice, asked and measured share none, and too many are refused', () => {
  const asked = questionsOf(FAMILIES, 'asked', 7, 72)
  deepEqual(
    asked.slice(0, 4).map(({ family }) => family),
    ['thing', 'task', 'several', 'thing'],
  )
  equal(new Set(asked.map(({ question }) => question)).size, 72)
  const all = (split: 'asked' | 'measured', count: number) =>
    FAMILIES.flatMap((family) => questionsOf([family], split, 7, count)).map(({ question }) => question)
  const known = new Set(all('asked', 72))
  equal(known.size, 3 * 72)
  deepEqual(
    all('measured', 48).filter((question) => known.has(question)),
    [],
  )
  throws(() => questionsOf(['thing'], 'measured', 7, 49), RangeError)
})

for (const one of GENERAL.scenarios)
  test(`${one.name}: the same seed gives the same sessions, another one others, and what is measured is not asked`, () => {
    const plan = planOf(one, 7, 30, GENERAL)
    deepEqual(planOf(one, 7, 30, GENERAL), plan)
    ok(planOf(one, 8, 30, GENERAL).some(({ question }, i) => question !== plan[i]!.question))
    const asked = new Set(plan.map(({ question }) => question))
    for (const [i, person] of one.people.entries()) {
      const measured = measuredFor(person, i, 7, 12, GENERAL)
      equal(new Set(measured.map(({ question }) => question.question)).size, 12)
      ok(measured.every(({ question }) => !asked.has(question.question)))
      const { first, other } = person.tastes.at(-1)!
      for (const { question, wish } of measured) equal(wish, question.family === 'thing' ? first : other)
    }
  })

test('a conditional taste is said with its condition; a changed mind wants lists first and plain text at the end', () => {
  const ines = planOf(scenario('steady'), 7, 36, GENERAL).filter(({ person }) => person === 2)
  deepEqual(
    ines.slice(0, 3).map(({ wish }) => wish),
    ['short', 'list', 'short'],
  )
  const rambling = 'word '.repeat(40)
  ok(reactionTo(ines[0]!, 0, rambling, GENERAL).words.startsWith('When I ask what something is: '))
  ok(reactionTo(ines[1]!, 0, rambling, GENERAL).words.startsWith('When I ask how to do something: '))
  const ruben = planOf(scenario('changed'), 7, 36, GENERAL).filter(({ person }) => person === 1)
  deepEqual(
    ruben.map(({ wish }) => wish),
    [...Array<string>(9).fill('list'), ...Array<string>(9).fill('plain')],
  )
})

test("no question is one of the demo's, of the gate's battery or of the rehearsal's prompts", () => {
  const prompts = globSync('models/{probes,rehearsal}/*.jsonl', { cwd: root })
    .flatMap((file) => readFileSync(join(root, file), 'utf8').split('\n').filter(Boolean))
    .map((row) => (JSON.parse(row) as { messages: { content: string }[] }).messages.at(-1)!.content)
  ok(prompts.length > 500)
  const others = new Set([
    ...prompts,
    ...FACTS.map(({ question }) => question),
    ...WISHES.flatMap(({ forms }) =>
      [...Array(120).keys()].flatMap((i) => [questionAt('talked', i, forms), questionAt('measured', i, forms)]),
    ),
  ])
  const own = [
    ...KNOWN.map(({ question }) => question),
    ...FAMILIES.flatMap((family) => [
      ...questionsOf([family], 'asked', 7, 72),
      ...questionsOf([family], 'measured', 7, 48),
    ]).map(({ question }) => question),
  ]
  deepEqual(
    own.filter((question) => others.has(question)),
    [],
  )
})

test('a cell has shares of wanted replies, and of the known questions the share that is answered rightly', async (t) => {
  const engines = await startEngines(readSettings({}, root))
  t.after(() => engines.close())
  const memory = METHODS.find(({ name }) => name === 'memory')!
  const cell = await runCell({ engines, population: GENERAL, bases: new Map() }, scenario('wrong'), memory, 7, {
    sessions: 6,
    fresh: 2,
  })
  deepEqual([cell.population, cell.people.length, cell.facts], ['general', 3, null])
  for (const { wanted, correct } of cell.people) {
    equal((wanted * 2) % 1, 0)
    // Each person has a third of the 24 known questions.
    ok(Math.abs(correct * 8 - Math.round(correct * 8)) < 1e-9)
  }
  ok(cell.readings.right + cell.readings.none + cell.readings.wrong >= 6)
})
