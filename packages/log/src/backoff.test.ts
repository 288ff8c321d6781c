import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Backoff, sleep } from './backoff.ts'

const next = (backoff: Backoff, count: number): number[] => Array.from({ length: count }, () => backoff.next())

test('delays double up to the maximum and start again after a reset', () => {
  const backoff = new Backoff({ firstMs: 50, longestMs: 300 })
  assert.deepEqual(next(backoff, 5), [50, 100, 200, 300, 300])
  backoff.reset()
  assert.deepEqual(next(backoff, 2), [50, 100])
})

test('linear delays grow by the first delay up to the maximum', () => {
  assert.deepEqual(next(new Backoff({ firstMs: 250, longestMs: 700, growth: 'linear' }), 4), [250, 500, 700, 700])
})

test('a first delay above the maximum is the maximum', () => {
  assert.deepEqual(next(new Backoff({ firstMs: 900, longestMs: 500 }), 2), [500, 500])
})

test('a wait resolves when its signal is aborted before or during it', async () => {
  const stop = new AbortController()
  const waiting = new Backoff({ firstMs: 3_600_000, longestMs: 3_600_000 }).wait(stop.signal)
  stop.abort()
  await waiting
  await sleep(3_600_000, stop.signal)
})
