/** Checks that an answer makes slow, or that throw. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileCheck } from './checks.ts'

test('a check that backtracks without end, or that throws, is one that the answer does not pass', () => {
  const slow = `${'word'.repeat(64)}!`
  for (const [check, passes, fails] of [
    [{ regex: '^(\\w+\\s?)*$' }, 'some words', slow],
    [{ 'json-schema': { type: 'string', pattern: '^(a+)+$' } }, '"aaa"', JSON.stringify(`${'a'.repeat(64)}!`)],
    [{ 'json-schema': { anyOf: [{ const: 1 }, { $ref: '#' }] } }, '1', '2'],
  ] as const) {
    const passed = compileCheck(check)
    assert.deepEqual([passed(passes), passed(fails), passed(passes)], [true, false, true], JSON.stringify(check))
  }
})
