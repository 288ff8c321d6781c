import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ago, count, duration, number, percent, plainName, reward, shortId } from './format.ts'

test('a number has one form for each unit, and what is missing is a dash', () => {
  assert.deepEqual([count(1_234_567), count(0), count(null)], ['1,234,567', '0', '–'])
  assert.deepEqual(
    [number(1.005, 1), number(-0.25), number(2, 0, true), number(Number.NaN)],
    ['1.0', '−0.25', '+2', '–'],
  )
  assert.deepEqual([reward(0.5), reward(-1), reward(0), reward(-0.001)], ['+0.50', '−1.00', '0.00', '0.00'])
  assert.deepEqual([percent(0.424), percent(1), percent(undefined)], ['42 %', '100 %', '–'])
})

test('a time has the unit that fits it, and none has 60 of the smaller one', () => {
  assert.deepEqual([0, 999, 1_000, 59_900].map(duration), ['0 ms', '999 ms', '1.0 s', '59.9 s'])
  assert.deepEqual([90_000, 3_599_000, 3_600_000, 5_400_000].map(duration), [
    '1 min 30 s',
    '59 min 59 s',
    '1 h 0 min',
    '1 h 30 min',
  ])
  assert.deepEqual([999.6, 59_960, 119_600, 3_599_700, 7_170_000].map(duration), [
    '1.0 s',
    '1 min 0 s',
    '2 min 0 s',
    '1 h 0 min',
    '2 h 0 min',
  ])
  assert.equal(duration(null), '–')
  const now = Date.parse('2026-01-02T00:00:00Z')
  const before = (seconds: number): string => ago(new Date(now - 1_000 * seconds).toISOString(), now)
  assert.deepEqual([-5, 59, 60, 3_600, 86_400].map(before), ['0 s ago', '59 s ago', '1 min ago', '1 h ago', '1 d ago'])
})

test('a name is one line of at most 120 characters, and an id its end', () => {
  assert.equal(plainName('a\nb\u202ec'), 'a\\u{a}b\\u{202e}c')
  assert.equal([...plainName('😀'.repeat(200))].length, 120)
  assert.deepEqual([shortId('0123456789abcdef'), shortId(null)], ['89abcdef', '–'])
})
