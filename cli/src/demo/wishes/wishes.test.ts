import { deepEqual, equal, ok } from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { THANKS, WISHES } from './people.ts'
import { questionAt } from './topics.ts'

const wish = (name: string) => WISHES.find((one) => one.name === name)!.satisfied
const root = join(import.meta.dirname, '../../../..')

const words = (text: string): string[] =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}' ]/gu, ' ')
    .split(/\s+/)
    .filter(Boolean)
const grams = (text: string): string[] => {
  const list = words(text)
  return list.slice(3).map((_, i) => list.slice(i, i + 4).join(' '))
}

test('short is 25 words at most, plain has no list, heading or bold, warm has a warm word or sign', () => {
  ok(wish('short')('word '.repeat(25)))
  equal(wish('short')('word '.repeat(26)), false)
  equal(wish('short')(''), false)
  ok(wish('plain')('Bake it for 20 minutes - then wait.'))
  for (const list of ['Do this:\n1. Bake', 'So:\n- bake', '## Bread\nBake', 'Bake it **well**'])
    equal(wish('plain')(list), false, list)
  ok(wish('warm')('I am glad you ask. Bake it.'))
  equal(wish('warm')('Bake it for 20 minutes.'), false)
})

test('what is talked about is not what is measured, and 48 questions in a row differ', () => {
  const { forms } = WISHES[0]!
  const list = (which: 'talked' | 'measured') => Array.from({ length: 120 }, (_, i) => questionAt(which, i, forms))
  const talked = new Set(list('talked'))
  equal(talked.size, 120)
  deepEqual(
    [...new Set(list('measured'))].filter((question) => talked.has(question)),
    [],
  )
  equal(new Set(list('measured').slice(0, 48)).size, 48)
})

test("no sentence of the people is a row of the scorer's data, and at most 10 % of their four-word sequences occur in it", () => {
  const rows = globSync('services/scorer/reactions/*.jsonl', { cwd: root }).flatMap((file) =>
    readFileSync(join(root, file), 'utf8').split('\n').filter(Boolean),
  )
  const reactions = rows.map((row) => (JSON.parse(row) as { next: { user: string | null } }).next.user ?? '')
  ok(reactions.filter((text) => text !== '').length > 500)
  const known = new Set(reactions.flatMap(grams))
  const texts = new Set(reactions.map((text) => words(text).join(' ')))
  const sentences = [...THANKS, ...WISHES.flatMap(({ complaints }) => complaints)]
  deepEqual(
    sentences.filter((sentence) => texts.has(words(sentence).join(' '))),
    [],
  )
  const own = sentences.flatMap(grams)
  const shared = own.filter((gram) => known.has(gram))
  ok(shared.length <= 0.1 * own.length, `${shared.length} of ${own.length}: ${shared.join('; ')}`)
})
