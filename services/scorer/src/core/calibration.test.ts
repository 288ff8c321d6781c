import assert from 'node:assert/strict'
import { test } from 'node:test'
import { calibrated, calibrationText, figuresOf, type JudgedCase } from './calibration.ts'

/** Four good and four bad answers, two of neither; a judge is a row of its opinions. */
const TRUTH = [1, 1, 1, 1, -1, -1, -1, -1, 0, 0]
const cases = (self: (number | null)[], reactions: (number | null)[]): JudgedCase[] =>
  TRUTH.map((truth, i) => ({ truth, self: self[i] ?? null, reactions: reactions[i] ?? null }))
const HALF = [1, 1, null, null, -1, -1, null, null, 1, null]
const ALL = [1, 1, 1, 1, -1, -1, -1, -1, null, null]

test('precision is of opinions, recall of the cases that have a sign; an opinion where there is none is wrong', () => {
  const of = (values: (number | null)[]) => figuresOf(TRUTH.map((truth, i) => ({ truth, value: values[i] ?? null })))
  assert.deepEqual(of(HALF), { precision: 0.8, recall: 0.5 })
  assert.deepEqual(of(ALL), { precision: 1, recall: 1 })
  assert.deepEqual(of([]), { precision: 0, recall: 0 })
  assert.deepEqual(of([-1, 0.3]), { precision: 0.5, recall: 0.125 })
})

test('the base judges only if both figures are above the other judge’s, and every case was judged', () => {
  const choice = (self: (number | null)[], reactions: (number | null)[], of = 10) =>
    calibrated(cases(self, reactions), of, 1).choice
  assert.equal(choice(ALL, HALF), 'self')
  assert.equal(choice(HALF, HALF), 'reactions', 'equal')
  assert.equal(choice(ALL, ALL), 'reactions', 'equal, both perfect')
  assert.equal(choice([...ALL.slice(0, 8), 1, 1], HALF), 'reactions', 'recall above, precision as low')
  assert.equal(choice([1], HALF), 'reactions', 'precision above, recall below')
  assert.equal(choice(ALL, [...ALL.slice(0, 7), null]), 'self', 'two precisions of 1')
  assert.equal(choice(ALL, HALF, 11), 'reactions', 'one case was not judged in time')
})

test('the line names choice, figures and time', () => {
  assert.equal(
    calibrationText(calibrated(cases(ALL, HALF), 10, 41.4)),
    'The base weights judge turns on this line (10 of 10 labelled cases in 41 s: base precision 1.00, recall 1.00; reactions precision 0.80, recall 0.50).',
  )
  assert.match(calibrationText(calibrated([], 24, 60)), /too slow \(0 of 24 labelled cases in 60 s\)\.$/)
  assert.match(calibrationText(calibrated(cases(HALF, ALL), 10, 1)), /^The reactions judge .*not better/)
  assert.match(calibrationText(calibrated(cases(ALL, HALF), 24, 60)), /too slow \(10 of 24/)
})
