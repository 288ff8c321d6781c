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

test('a key that another made expires with it, whatever its own expiry says and whenever that was changed', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-keyring-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'keys.json')
  const key = (id: string, more: object): object => ({
    id,
    sha256: sha256(Buffer.from(id)),
    created_at: '2026-01-02T03:04:00.000Z',
    ...more,
  })
  const [early, late] = ['2026-02-01T00:00:00.000Z', '2026-03-01T00:00:00.000Z']
  const keys = [
    key('maker', { expires_at: late }),
    key('made', { created_by: 'maker', expires_at: null }),
    key('made-of-made', { created_by: 'made', expires_at: null }),
    key('earlier', { created_by: 'maker', expires_at: early }),
    key('operators', { created_by: 'admin token', expires_at: null }),
    key('alone', { created_by: 'alone', expires_at: early }),
  ]
  writeFileSync(file, JSON.stringify({ keys }))
  let now = 0
  const keyring = createKeyring([], file, () => now)
  const ends = (id: string): string | null | undefined => {
    const end = keyring.find(id)?.expiresAt
    return typeof end === 'number' ? new Date(end).toISOString() : end
  }
  assert.deepEqual(['maker', 'made', 'made-of-made', 'earlier', 'operators', 'alone'].map(ends), [
    late,
    late,
    late,
    early,
    null,
    undefined,
  ])
  writeFileSync(file, JSON.stringify({ keys: [key('maker', { expires_at: early }), ...keys.slice(1)] }))
  now += LOOK_MS
  assert.deepEqual(['made', 'made-of-made', 'earlier'].map(ends), [early, early, early], 'after instar keys rotate')
  writeFileSync(file, JSON.stringify({ keys: keys.slice(1) }))
  now += LOOK_MS
  assert.deepEqual(['made', 'made-of-made', 'earlier', 'operators'].map(ends), [undefined, undefined, undefined, null])
})
