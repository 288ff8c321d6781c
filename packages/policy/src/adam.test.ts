/** Adam's steps on plain numbers. */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { adamStep, initialAdam } from './adam.ts'

const stepOf = (adamEpsilon: number | undefined): number[] => {
  const data = new Float32Array(3)
  const tensors = new Map([['w', { shape: [3], data }]])
  const settings = { learningRate: 0.5, beta1: 0.9, beta2: 0.95, ...(adamEpsilon === undefined ? {} : { adamEpsilon }) }
  adamStep(tensors, new Map([['w', Float32Array.of(1e-4, -2e-4, 4e-4)]]), 1, initialAdam(tensors), settings)
  return [...data]
}

test('the first step is equal in every parameter with the default epsilon', () => {
  for (const [at, value] of stepOf(undefined).entries())
    ok(Math.abs(value - (at === 1 ? 0.5 : -0.5)) < 1e-3, `${value}`)
  deepEqual(stepOf(undefined), stepOf(1e-8))
})

test('the first step goes along the gradient with an epsilon far above it', () => {
  const [first = 0, second = 0, third = 0] = stepOf(1)
  ok(Math.abs(first + 0.5e-4) < 1e-7, `${first}`)
  ok(Math.abs(second / first + 2) < 1e-2 && Math.abs(third / first - 4) < 1e-2)
})
