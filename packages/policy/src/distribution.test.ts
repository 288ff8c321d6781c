import { test } from 'node:test'
import assert from 'node:assert/strict'
import { klOf, klsOf, logSoftmaxRows } from './distribution.ts'

test('KL to two distributions at once has the bits of two computations', () => {
  const [rows, V] = [3, 257]
  const [p, a, b] = [0.3, 1.1, 2.7].map((scale, which) => {
    const logp = Float32Array.from({ length: rows * V }, (_, at) => scale * Math.sin(1 + which + at * 0.7))
    logSoftmaxRows(logp, rows, V, () => 1)
    return logp
  }) as [Float32Array, Float32Array, Float32Array]
  for (let row = 0; row < rows; row += 1)
    assert.deepEqual(klsOf(p, [a, b], row, V), [klOf(p, a, row, V), klOf(p, b, row, V)])
  assert.deepEqual(klsOf(p, [p], 1, V), [0])
})
