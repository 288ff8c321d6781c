/** The base has read nothing of what it is later taught and judged with: the scorer's hints and rows, the demo's people. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { USERS, WRONG } from '../../../cli/src/demo/users.ts'
import { VALUE_WORDINGS, WORDINGS } from '../../../services/scorer/src/core/hints.ts'
import { bareExchange, converse } from './corpus.ts'
import { FAMILIES } from './families/index.ts'
import { CHARACTERS } from './families/stories.ts'
import { FRAMES, LISTS, PARTS, ASIDES } from './hint-parts.ts'
import { everyWording, WISHES, wordings } from './hints.ts'
import { NAMES, SYSTEM_TEMPLATES, TASTES } from './people.ts'
import { seeded } from './random.ts'
import { ANNOYED, MARKS, REACTION_TEMPLATES } from './reactions.ts'
import { expansions, from, wordsOf } from './wording.ts'

const CONVERSATIONS = 12_000
const SIZE = 4

/**
 * Four words of these alone are how English asks for anything ("i would like to"), and belong to nobody: pronouns,
 * auxiliaries, articles, prepositions, conjunctions and the words of politeness. None of them names a style.
 */
const FUNCTION_WORDS = new Set(
  (
    'a an the this that it its i me my you your we us they them he she is are was were be been am do does did not no of to in on at for with and or but so ' +
    "as if can could would will should may might must have has had please thank thanks i'd don't it's that's there here what which who how when where why from by " +
    'want like need just one make go into'
  ).split(' '),
)

const grams = (words: readonly string[]): string[] =>
  words.slice(SIZE - 1).map((_, i) => words.slice(i, i + SIZE).join(' '))
const nobodys = (gram: string): boolean => gram.split(' ').every((word) => FUNCTION_WORDS.has(word))
const sentencesOf = (text: string): string[] =>
  text
    .split(/[.!?\n]+/)
    .map((part) => wordsOf(part).join(' '))
    .filter((part) => part.includes(' '))

/** Everything that the corpus may say about style, and a sample of whole conversations. `told`: without answers and tools. */
function* said(): Generator<{ text: string; told: boolean }> {
  for (const wish of WISHES) for (const text of everyWording(wish, 'train')) yield { text, told: true }
  for (const template of [...REACTION_TEMPLATES, ...SYSTEM_TEMPLATES, ...ASIDES])
    for (const text of expansions(template, { ...LISTS, marks: Object.values(MARKS).flat() }))
      yield { text, told: true }
  const random = seeded(77)
  for (let i = 0; i < CONVERSATIONS; i++)
    for (const turn of (i % 2 === 0 ? converse(random) : bareExchange(random)).turns)
      yield { text: turn.content, told: turn.role === 'user' || turn.role === 'system' }
}

/** What questions say is theirs, not the scorer's. */
const questionGrams = (): Set<string> => {
  const random = seeded(78)
  return new Set(
    FAMILIES.flatMap((family) =>
      Array.from({ length: 1_500 }, () => grams(wordsOf(family.draft(random).question))).flat(),
    ),
  )
}

/** What a text of the corpus is compared with: collects what they have in common. */
type Search = { see(said: { text: string; told: boolean; words: readonly string[] }): void; found: Set<string> }

const known = questionGrams()

function shared(texts: readonly string[]): Search {
  const foreign = new Set(
    texts.flatMap((text) => grams(wordsOf(text))).filter((gram) => !nobodys(gram) && !known.has(gram)),
  )
  // Strings of two and three words are looked for whole; one word alone is nobody's.
  const whole = new Set(
    texts
      .map((text) => wordsOf(text).join(' '))
      .filter((text) => [2, 3].includes(text.split(' ').length) && !nobodys(text)),
  )
  const found = new Set<string>()
  return {
    found,
    see({ words }) {
      for (let i = 0; i + 1 < words.length; i++) {
        const two = `${words[i]!} ${words[i + 1]!}`
        if (whole.has(two)) found.add(two)
        if (i + 2 >= words.length) continue
        const three = `${two} ${words[i + 2]!}`
        if (whole.has(three)) found.add(three)
        if (i + 3 < words.length && foreign.has(`${three} ${words[i + 3]!}`)) found.add(`${three} ${words[i + 3]!}`)
      }
    },
  }
}

function namesOf(names: readonly string[]): Search {
  const found = new Set<string>()
  return {
    found,
    see({ text, words }) {
      for (const word of words) if (names.includes(word)) found.add(`${word}: ${text}`)
    },
  }
}

function sentences(texts: readonly string[]): Search {
  const wanted = new Set(texts.flatMap(sentencesOf).filter((sentence) => !nobodys(sentence)))
  const found = new Set<string>()
  return {
    found,
    see({ text, told }) {
      if (told) for (const sentence of sentencesOf(text)) if (wanted.has(sentence)) found.add(sentence)
    },
  }
}

const UNSEEN = JSON.parse(
  readFileSync(new URL('../../../bench/wordings/unseen.json', import.meta.url), 'utf8'),
) as Record<string, string[]>

const REACTIONS = new URL('../../../services/scorer/reactions/', import.meta.url)
const rows = readdirSync(REACTIONS)
  .filter((name) => name.endsWith('.jsonl'))
  .flatMap((name) => readFileSync(new URL(name, REACTIONS), 'utf8').trim().split('\n'))
  .map((line) => (JSON.parse(line) as { next: { user: string } }).next.user)

const people = USERS.map((user) => user.requestUser.toLowerCase())

const searches = {
  hints: shared([
    ...Object.values(WORDINGS).flat(),
    ...VALUE_WORDINGS.flatMap((wording) => ['12', 'paris', 'apple'].map((key) => wording.replaceAll('…', key))),
  ]),
  unseen: shared(Object.values(UNSEEN).flat()),
  people: shared([...USERS.flatMap((user) => [user.system, ...user.complaints, ...user.thanks]), ...WRONG]),
  names: namesOf(people),
  rows: sentences(rows),
}

// The corpus is made once for all of them.
let texts = 0
before(() => {
  for (const one of said()) {
    texts++
    const words = wordsOf(one.text)
    for (const search of Object.values(searches)) search.see({ ...one, words })
  }
})

const isApart = (search: Search): void => {
  assert.ok(texts > 100_000, `${texts} texts`)
  assert.deepEqual([...search.found].sort(), [])
}

test('no hint of the scorer, and no four words of one, stand in the corpus', () => {
  isApart(searches.hints)
})

test('no wording on which compliance is measured, and no four words of one, stand in the corpus', () => {
  assert.deepEqual(Object.keys(UNSEEN), [...WISHES])
  for (const texts of Object.values(UNSEEN)) assert.equal(new Set(texts).size, 24)
  isApart(searches.unseen)
})

test("no sentence of the demo's people, and no four words of one, stand in the corpus", () => {
  isApart(searches.people)
})

test("no name of the demo's people is a name of the corpus", () => {
  const names = new Set([...NAMES, ...Object.keys(TASTES), ...CHARACTERS].map((name) => name.toLowerCase()))
  assert.deepEqual(
    people.filter((name) => names.has(name)),
    [],
  )
  isApart(searches.names)
})

test('no whole sentence of the rows that the reactions judge is made from is said in the corpus', () => {
  assert.ok(rows.length > 5_000)
  isApart(searches.rows)
})

test('each wish has many wordings, and held-out parts and frames are in none of them', () => {
  for (const wish of WISHES) {
    assert.ok(wordings(wish, 'train') > 5_000, `${wish}: ${wordings(wish, 'train')}`)
    const heldOut = new Set(everyWording(wish, 'held-out'))
    let both = 0
    for (const text of everyWording(wish, 'train')) if (heldOut.has(text)) both++
    // Different templates now and then have one text (`use` + `ordinary sentences`).
    assert.ok(both < heldOut.size / 50, `${both} of ${heldOut.size}`)
  }
  for (const parts of [
    ...Object.values(FRAMES),
    ...Object.values(PARTS).flatMap((p) => Object.values(p)),
    ...Object.values(ANNOYED),
  ])
    if (parts.length > 30) {
      const share = from('held-out', parts).length / parts.length
      assert.ok(share >= 0.03 && share <= 0.4, `${share} of ${parts[0]!} … is held out`)
    }
})
