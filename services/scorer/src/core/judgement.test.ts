import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settle } from './judgement.ts'

const said = (judge: string, value: number | null, hint: string | null = null, failed = false) => ({
  judge,
  value,
  note: '',
  hint,
  failed,
})

test('the first judge with an opinion decides, all are recorded', () => {
  const judged = settle([said('a', null), said('b', -1), said('c', null, 'Answer briefly.')])
  assert.deepEqual(
    [judged.reward, judged.judge, judged.hint, judged.hintJudge, judged.reason],
    [-1, 'b', 'Answer briefly.', 'c', null],
  )
  assert.deepEqual(
    judged.verdicts.map((v) => v.judge),
    ['a', 'b', 'c'],
  )
})

test('values outside of −1…1 are nonsense and count as a failure', () => {
  for (const value of [Number.NaN, 1.5, -Infinity]) assert.equal(settle([said('a', value)]).reason, 'judge_failed')
  assert.equal(settle([said('a', 0)]).reward, 0)
})

test('why there is no reward', () => {
  assert.equal(settle([]).reason, 'no_next_state')
  assert.equal(settle([said('a', null)]).reason, 'abstained')
  assert.equal(settle([said('a', null, null, true), said('b', null)]).reason, 'judge_failed')
})

test('a praised answer keeps no hint', () => {
  assert.equal(settle([said('a', 1, 'Answer briefly.')]).hint, null)
})
