import { equal, match } from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics, startHealth } from '../index.ts'

test('the health port of a service also serves its metrics', async () => {
  const metrics = createMetrics()
  metrics.count('instar_updates_total', { outcome: 'computed' })
  const server = await startHealth('127.0.0.1', 0, () => ({ status: 'ready', problem: null }), metrics)
  try {
    const response = await fetch(`http://127.0.0.1:${server.port}/metrics`)
    equal(response.status, 200)
    match(response.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/)
    match(await response.text(), /^instar_updates_total\{outcome="computed"\} 1$/m)
    equal((await fetch(`http://127.0.0.1:${server.port}/health/ready`)).status, 200)
    equal((await fetch(`http://127.0.0.1:${server.port}/metrics/other`)).status, 404)
  } finally {
    await server.stop()
  }
})
