/** The file of revoked keys. */
import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { addRevoked, createKeyring } from './keyring.ts'
import { sha256 } from '../../../../test/kit/gateway.ts'

test('a revocation behind a line that was cut off counts, and whole lines have no empty ones between them', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-keyring-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'keys.json')
  const hashOf = (name: string): string => sha256(Buffer.from(name))
  const keys = ['anna', 'other'].map((name) => ({
    id: name,
    sha256: hashOf(name),
    created_at: '2026-01-02T03:04:00.000Z',
  }))
  writeFileSync(file, JSON.stringify({ keys }))
  addRevoked(file, hashOf('first'))
  addRevoked(file, hashOf('second'))
  appendFileSync(`${file}.revoked`, hashOf('third').slice(0, 20))
  addRevoked(file, hashOf('anna'))
  assert.deepEqual(readFileSync(`${file}.revoked`, 'utf8').split('\n'), [
    hashOf('first'),
    hashOf('second'),
    hashOf('third').slice(0, 20),
    hashOf('anna'),
    '',
  ])
  const keyring = createKeyring([], file, () => 0)
  assert.deepEqual([keyring.find('anna'), keyring.find('other')?.id], [null, 'other'])
})
