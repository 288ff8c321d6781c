import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ADMIN, type Key } from '../receive/core/keys.ts'
import { cookieIn, cookieSecret, csrfOf, EndedVisits, isCsrf, keyOfCookie, LINK_MS, Links, signed } from './visit.ts'

const SECRET = cookieSecret('admin-token-of-the-tests')
const KEY: Key = { ...ADMIN, id: 'reader', sha256: 'a'.repeat(64), scopes: ['read'] }
const keyOf = (id: string): Key | null => (id === KEY.id ? KEY : null)
const HOLDER = { id: KEY.id, binding: KEY.sha256 }

test('a cookie names its key until it expires, the key is revoked or replaced, or the secret changes', () => {
  const cookie = signed(SECRET, HOLDER, 1000)
  assert.equal(keyOfCookie(SECRET, cookie, keyOf, 999), KEY)
  assert.equal(keyOfCookie(SECRET, cookie, keyOf, 1000), null, 'expired')
  assert.equal(
    keyOfCookie(SECRET, cookie, () => null, 1),
    null,
    'revoked',
  )
  assert.equal(
    keyOfCookie(SECRET, cookie, () => ({ ...KEY, sha256: 'b'.repeat(64) }), 1),
    null,
    'another secret of the id',
  )
  assert.equal(
    keyOfCookie(SECRET, cookie, () => ({ ...KEY, expiresAt: 1 }), 1),
    null,
    'key expired',
  )
  assert.equal(keyOfCookie(cookieSecret('another-admin-token'), cookie, keyOf, 1), null)
  assert.equal(keyOfCookie(SECRET, signed(SECRET, { id: ADMIN.id, binding: '' }, 10), keyOf, 1), ADMIN)
})

test('every change of a cookie makes it invalid', () => {
  const cookie = signed(SECRET, HOLDER, 1000)
  for (let i = 0; i < cookie.length; i += 1) {
    // The last letter of base64url has two bits that name no byte: other letters give the same bytes.
    for (const other of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'.replace(cookie[i]!, '')) {
      const changed = cookie.slice(0, i) + other + cookie.slice(i + 1)
      assert.equal(
        keyOfCookie(SECRET, changed, () => KEY, 1),
        null,
        changed,
      )
    }
  }
  for (const text of ['', '.', '..', `${cookie}.`, `${cookie}x`, 'a.1.b', `${'x'.repeat(100)}.1.${'y'.repeat(43)}`])
    assert.equal(
      keyOfCookie(SECRET, text, () => KEY, 0),
      null,
      text,
    )
})

test('the token of actions is of one session', () => {
  const [one, two] = [signed(SECRET, HOLDER, 1000), signed(SECRET, HOLDER, 1001)]
  assert.ok(isCsrf(SECRET, one, csrfOf(SECRET, one)))
  assert.ok(!isCsrf(SECRET, two, csrfOf(SECRET, one)))
  for (const given of [null, '', 'x']) assert.ok(!isCsrf(SECRET, one, given))
})

test('the cookie is found among others', () => {
  assert.equal(cookieIn('a=1; instar_dashboard=x.y.z; b=2'), 'x.y.z')
  assert.equal(cookieIn('xinstar_dashboard=x'), null)
  assert.equal(cookieIn(undefined), null)
})

test('a link works once and within its time; at most a hundred are kept', () => {
  const links = new Links()
  links.add('one', HOLDER, 0)
  assert.ok(!links.use('two', 1))
  assert.equal(links.use('one', 1), HOLDER)
  assert.ok(!links.use('one', 1))
  links.add('late', HOLDER, 0)
  assert.ok(!links.use('late', LINK_MS))
  for (let i = 0; i < 150; i += 1) links.add(`code ${i}`, HOLDER, 0)
  assert.ok(links.use('code 149', 1))
  assert.ok(!links.use('code 0', 1))
})

test('a session that was ended stays so until it expires, however many others are ended', () => {
  const ended = new EndedVisits()
  const cookie = (until: number, id = KEY.id): string => signed(SECRET, { ...HOLDER, id }, until)
  ended.add(cookie(1000), 0)
  ended.add(cookie(2000), 999)
  assert.ok(ended.has(cookie(1000)) && ended.has(cookie(2000)) && !ended.has(cookie(3000)))
  const first = cookie(9000)
  ended.add(first, 1000)
  for (let i = 0; i < 1500; i += 1) {
    ended.add(cookie(10_000 + i), 1000)
    assert.ok(ended.has(first) && ended.has(cookie(10_000 + i)), String(i))
  }
  assert.ok(!ended.has(cookie(20_000)), 'a session that begins afterwards')
  assert.ok(!ended.has(cookie(9000, 'other')), 'a session of another key')
  assert.equal(ended.isOver(cookie(20_000), 19_999), false)
  ended.add(cookie(30_000, 'other'), 20_000)
  assert.ok(!ended.has(first), 'it has expired')
})

test('of each key at most a hundred are held, and none of a key whose sessions have expired', () => {
  const ended = new EndedVisits()
  const held = (): number[] => [...ended['holders'].values()].map(({ cookies }) => cookies.size)
  for (let i = 0; i < EndedVisits.MOST; i += 1) ended.add(signed(SECRET, HOLDER, 1000 + i), 0)
  assert.deepEqual(held(), [100])
  ended.add(signed(SECRET, HOLDER, 1100), 0)
  assert.deepEqual(held(), [0])
  ended.add(signed(SECRET, { ...HOLDER, id: 'other' }, 2000), 1100)
  assert.deepEqual(held(), [1])
})
