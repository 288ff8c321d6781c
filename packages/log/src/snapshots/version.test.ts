import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { foldVersion } from './version.ts'

const read =
  (change: (name: string, source: string) => string) =>
  (source: URL): string =>
    change(source.pathname, readFileSync(source, 'utf8'))
const OWN = new URL('./version.ts', import.meta.url)

test('the version changes with the sources of folds, records and snapshots, and not with comments', () => {
  const version = foldVersion([])
  assert.match(version, /^[0-9a-f]{16}$/)
  assert.equal(
    foldVersion(
      [],
      read((_, source) => `/** Another comment. */\n${source}\n\n// The end.`),
    ),
    version,
  )
  for (const name of [
    'folds/turns.ts',
    'folds/scores.ts',
    'folds/updates.ts',
    'folds/weights.ts',
    'folds/chain.ts',
    'src/records.ts',
    'snapshots/sessions.ts',
    'snapshots/file.ts',
  ]) {
    assert.notEqual(
      foldVersion(
        [],
        read((path, source) => (path.endsWith(name) ? `${source}\nexport const more = 1` : source)),
      ),
      version,
      name,
    )
  }
  assert.notEqual(foldVersion([OWN]), version, "a service's own sources")
  assert.notEqual(
    foldVersion(
      [OWN],
      read((path, source) => (path === OWN.pathname ? source.replace('16', '17') : source)),
    ),
    foldVersion([OWN]),
  )
})
