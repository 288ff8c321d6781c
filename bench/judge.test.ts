import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { readData } from '../services/scorer/reactions/recipe/data.ts'
import { kappa, readCases, rowOf, truthOf } from './judge.ts'

const key = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

test('no case of the bench occurs in the training data, nor does its pair of request and answer', () => {
  const { rows } = readData()
  const pair = ({ request, answer }: { request: string; answer: string }): string => `${key(request)}\n${key(answer)}`
  const trained = new Set(rows.map(pair))
  const cases = readCases()
  ok(cases.length > 0)
  deepEqual(
    cases.filter((one) => trained.has(pair(one))).map(({ id }) => id),
    [],
  )
})

test('ids are unique', () => {
  const ids = readCases().map(({ id }) => id)
  equal(new Set(ids).size, ids.length)
})

test('kappa: 1 for the same labels, 0 for chance, null without pairs', () => {
  equal(kappa([]), null)
  equal(
    kappa([
      [1, 1],
      [1, 1],
    ]),
    null,
  )
  equal(
    kappa([
      [1, 1],
      [-1, -1],
      [0, 0],
    ]),
    1,
  )
  equal(
    kappa([
      [1, 1],
      [1, -1],
      [-1, 1],
      [-1, -1],
    ]),
    0,
  )
  equal(truthOf({ label: 1, labels: [1, -1] }), null)
  equal(truthOf({ label: 0, labels: [1, 1] }), 1)
  equal(truthOf({ label: -1 }), -1)
})

test('precision is of opinions, recall of ±1, abstention and sign errors of all cases, hints of −1', () => {
  const one = (truth: number, value: number, hint: string | null = null, wish: string | null = null) => ({
    truth,
    value,
    hint,
    wish,
    labels: undefined,
  })
  const all = [
    one(1, 1),
    one(1, -1, 'Sound friendly.'),
    one(-1, -1, 'Be concise.', 'shorter'),
    one(-1, 0, null, 'longer'),
    one(0, 1),
    one(0, 0),
    one(-1, 0, null, 'other'),
    one(-1, -1, 'The right answer is 12.', 'fix_value'),
    one(-1, -1, 'In words of a model.', 'warmer'),
  ]
  const { judge: _, split: __, category: ___, ...figures } = rowOf({ judge: 'j', split: 'dev', category: 'all' }, all)
  deepEqual(figures, {
    cases: 9,
    precision: 0.667,
    recall: 0.571,
    abstained: 0.333,
    signErrors: 0.111,
    hints: 1,
    hintsOfWished: 0.75,
    hintsRight: 0.667,
    kappa: null,
  })
})
