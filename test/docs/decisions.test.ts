import { deepEqual, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../../tools/tree.ts'
import { linksOf } from './links.ts'

const page = readFileSync(join(ROOT, 'docs/decisions.md'), 'utf8')
const [head = '', ...topics] = page.split(/^## /m)
const entries = topics.flatMap((topic) =>
  topic
    .split(/^### /m)
    .slice(1)
    .map((entry) => entry.trimEnd().split('\n')),
)

test('each entry of docs/decisions.md is in one topic, has a date and is unique', () => {
  ok(entries.length > 70, `${entries.length} entries`)
  const titles = entries.map(([title]) => title!)
  deepEqual(
    titles.filter((title) => !/^\d{4}-\d{2}-\d{2} \S/.test(title)),
    [],
  )
  deepEqual(
    titles.filter((title, index) => titles.indexOf(title) !== index),
    [],
  )
  deepEqual(
    topics.map((topic) => topic.split('\n')[0]!).filter((title) => /^\d{4}-/.test(title)),
    [],
    'move the entry into its topic, under a heading with ###',
  )
})

test('no entry has more than 12 lines', () => {
  deepEqual(
    entries.filter((lines) => lines.length > 13).map(([title, ...lines]) => `${title}: ${lines.length} lines`),
    [],
  )
})

test('the index names each topic', () => {
  deepEqual(linksOf(head).length, topics.length)
})
