import { deepEqual, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { WORDINGS } from '../../services/scorer/src/core/hints.ts'
import { USERS } from '../../cli/src/demo/users.ts'

const ROWS = new URL('../../services/scorer/reactions/', import.meta.url)

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .replace(/’/g, "'")
    .match(/[\p{L}\p{N}][\p{L}\p{N}']*/gu) ?? []
/** Of three words and more: shorter ones ("thank you") are nobody's. */
const sentencesOf = (text: string): string[] =>
  text
    .split(/[.!?\n]+/)
    .map(wordsOf)
    .filter((words) => words.length > 2)
    .map((words) => words.join(' '))
const gramsOf = (text: string): string[] => {
  const words = wordsOf(text)
  return words.slice(3).map((_, i) => words.slice(i, i + 4).join(' '))
}

test("no sentence of the demo's people is a row of the reactions judge or a hint, and few four words are", (t) => {
  const rows = readdirSync(ROWS)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readFileSync(new URL(name, ROWS), 'utf8').trim().split('\n'))
    .map((line) => (JSON.parse(line) as { next: { user: string } }).next.user)
  ok(rows.length > 5_000)
  const known = [...rows, ...Object.values(WORDINGS).flat()]
  const sentences = new Set(known.flatMap(sentencesOf))
  const said = USERS.flatMap((user) => [...user.complaints, ...user.thanks])
  deepEqual(
    said.flatMap(sentencesOf).filter((sentence) => sentences.has(sentence)),
    [],
  )
  const grams = new Set(known.flatMap(gramsOf))
  const theirs = [...new Set(said.flatMap(gramsOf))]
  const shared = theirs.filter((gram) => grams.has(gram))
  t.diagnostic(`${shared.length} of ${theirs.length} sequences of four words occur in rows or hints`)
  // Two authors who ask for the same things in English have some in common, and the rows grow: not a tenth, though.
  ok(shared.length < theirs.length / 10, `${shared.length} of ${theirs.length}`)
})
