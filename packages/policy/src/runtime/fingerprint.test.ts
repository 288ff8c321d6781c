import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { it } from 'node:test'
import { arithmetic, SOURCES } from './fingerprint.ts'

const POLICY = resolve(import.meta.dirname, '..')

/** The files of this package whose code step.ts runs, by imports of values, without `.ts`. */
const reached = (file: string, found = new Set<string>()): Set<string> => {
  if (found.has(file)) return found
  found.add(file)
  const text = readFileSync(`${resolve(POLICY, file)}.ts`, 'utf8')
  for (const [, path] of text.matchAll(/^(?:import|export) (?!type )[^;']*? from '(\.[^']*)\.ts'/gm))
    reached(relative(POLICY, resolve(POLICY, dirname(file), path!)), found)
  return found
}

it('the digest of the sources depends on numbers and not on comments or white space', () => {
  const files = (name: string): string => `/** ${name} */\nexport const x = 1 // one\n`
  const same = arithmetic(files)
  assert.equal(
    arithmetic((name) => `/**\n * other words\n */\nexport  const x = 1 // one\n`.replace('other', name)),
    same,
  )
  assert.notEqual(
    arithmetic((name) => files(name).replace('= 1', '= 2')),
    same,
  )
  assert.match(arithmetic(), /^[0-9a-f]{12}$/)
})

it('every source that an update runs is a part of the digest', () => {
  assert.deepEqual(
    [...reached('step')].filter((file) => !SOURCES.includes(file)),
    [],
  )
})
