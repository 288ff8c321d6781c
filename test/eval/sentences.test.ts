/** The people of the evaluation do not talk as the rows from which the judge is made. */
import { deepEqual, ok } from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { GENERAL_THANKS, GENERAL_WISHES } from '../../bench/eval/general/wishes.ts'
import { INCORRECT, LIES, THANKS, TINY_WISHES } from '../../bench/eval/wishes.ts'
import { THANKS as DEMO_THANKS, WISHES as DEMO } from '../../cli/src/demo/wishes/people.ts'
import { PEOPLE } from '../../cli/src/demo/people.ts'

const root = join(import.meta.dirname, '../..')
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

const general = [...GENERAL_THANKS, ...Object.values(GENERAL_WISHES).flatMap(({ complaints }) => complaints)]

test("of the people of a general model no sentence is the demo's, and at most 10 % of the four-word sequences are", () => {
  const demo = [
    ...DEMO_THANKS,
    ...DEMO.flatMap(({ complaints }) => complaints),
    ...Object.values(PEOPLE).flatMap(({ complaints }) => complaints),
  ]
  const texts = new Set(demo.map((text) => words(text).join(' ')))
  deepEqual(
    general.filter((sentence) => texts.has(words(sentence).join(' '))),
    [],
  )
  const known = new Set(demo.flatMap(grams))
  const own = general.flatMap(grams)
  const shared = own.filter((gram) => known.has(gram))
  ok(shared.length <= 0.1 * own.length, `${shared.length} of ${own.length}: ${shared.join('; ')}`)
})

test("no sentence is a row of the scorer's data, and at most 10 % of the four-word sequences occur in it", () => {
  const reactions = globSync('services/scorer/reactions/*.jsonl', { cwd: root })
    .flatMap((file) => readFileSync(join(root, file), 'utf8').split('\n').filter(Boolean))
    .map((row) => (JSON.parse(row) as { next: { user: string | null } }).next.user ?? '')
  ok(reactions.length > 500)
  const sentences = [
    ...THANKS,
    ...INCORRECT,
    ...LIES.map((lie) => lie.replace('{}', '14')),
    ...Object.values(TINY_WISHES).flatMap(({ complaints }) => complaints),
    ...general,
  ]
  const texts = new Set(reactions.map((text) => words(text).join(' ')))
  deepEqual(
    sentences.filter((sentence) => texts.has(words(sentence).join(' '))),
    [],
  )
  const known = new Set(reactions.flatMap(grams))
  const own = sentences.flatMap(grams)
  const shared = own.filter((gram) => known.has(gram))
  ok(shared.length <= 0.1 * own.length, `${shared.length} of ${own.length}: ${shared.join('; ')}`)
})
