/** The file of keys and that of revoked keys. */
import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { addRevoked, createKeyring, LOOK_MS, MAX_KEY_FILE_BYTES, readKeyState } from './keyring.ts'
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

test('a key file without an end or above the limit is not read; the keys from before stay valid, until a good file is there', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-keyring-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'keys.json')
  const holding = (id: string): string =>
    JSON.stringify({ keys: [{ id, sha256: sha256(Buffer.from(id)), created_at: '2026-01-02T03:04:00.000Z' }] })
  writeFileSync(file, holding('anna'))
  let now = 0
  const keyring = createKeyring([], file, () => now)
  const found = (): unknown[] => {
    now += LOOK_MS
    return ['anna', 'bob'].map((token) => keyring.find(token)?.id)
  }
  rmSync(file)
  symlinkSync('/dev/zero', file)
  assert.throws(() => readKeyState(file), { code: 'data_unreadable', message: /: it is not a regular file$/ })
  assert.deepEqual(found(), ['anna', undefined])
  rmSync(file)
  writeFileSync(file, '')
  truncateSync(file, MAX_KEY_FILE_BYTES + 1)
  assert.throws(() => readKeyState(file), { code: 'data_unreadable', message: /: it has more than 16777216 bytes$/ })
  assert.deepEqual(found(), ['anna', undefined])
  writeFileSync(file, holding('bob'))
  assert.deepEqual(found(), [undefined, 'bob'])
})
