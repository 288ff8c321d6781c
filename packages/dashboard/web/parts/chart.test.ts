import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lineOf, type Point } from './chart.ts'

const scale = { px: (x: number) => 10 * x, xAt: (place: number) => place / 10, py: (y: number) => 100 - y, band: 1 }
const points: Point[] = [
  { x: 0, y: 1 },
  { x: 1, y: 3 },
  { x: 2, y: null },
  { x: 3, y: 5 },
  { x: 4, y: 5 },
]

test('a line goes from value to value, and in steps each value holds until the next, or until there is none', () => {
  assert.equal(lineOf(points, false, scale), 'M0.0 99.0L10.0 97.0M30.0 95.0L40.0 95.0')
  assert.equal(lineOf(points, true, scale), 'M0.0 99.0H10.0V97.0H20.0M30.0 95.0H40.0V95.0')
})
