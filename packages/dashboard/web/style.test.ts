/** The sheet keeps to the sizes and spacings that docs/dashboard.md states, and has each colour for light and dark. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const sheet = readFileSync(path.join(import.meta.dirname, 'style.css'), 'utf8')
const stated = readFileSync(path.join(import.meta.dirname, '../../../docs/dashboard.md'), 'utf8')

/** The numbers of a row of the table. */
const row = (name: string): number[] => {
  const cell = new RegExp(`^\\| ${name} \\| ([^|]*)\\|`, 'm').exec(stated)?.[1]
  assert.ok(cell, `no row ${name}`)
  return [...cell.matchAll(/\b(\d+)\b/g)].map(([, size]) => Number(size))
}
const used = (pattern: RegExp): number[] => [
  ...new Set(
    [...sheet.matchAll(pattern)].flatMap(([, value]) =>
      [...value!.matchAll(/(\d+)px/g)].map(([, size]) => Number(size)),
    ),
  ),
]
const sorted = (sizes: Iterable<number>): number[] => [...sizes].toSorted((a, b) => a - b)

test('the sheet has the stated sizes of type and no other', () => {
  assert.deepEqual(sorted(used(/font(?:-size)?: (\d+px)/g)), sorted(row('type')))
})

test('the sheet has the stated distances and no other', () => {
  assert.deepEqual(sorted(used(/(?:padding|margin|margin-[a-z]+|gap): ([^;]*);/g)), sorted(row('spacing')))
})

test('each colour is there for light and for dark', () => {
  const themes = [...sheet.matchAll(/:root \{([^}]*)\}/g)].map(([, body]) =>
    [...body!.matchAll(/(--[a-z\d-]+):/g)].map(([, name]) => name),
  )
  assert.equal(themes.length, 2)
  assert.deepEqual(themes[1], themes[0])
  const named = new Set(themes[0])
  for (const [, name] of sheet.matchAll(/var\((--[a-z\d-]+)\)/g)) assert.ok(named.has(name), name)
})
