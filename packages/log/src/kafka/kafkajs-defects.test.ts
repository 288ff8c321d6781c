/** Patches of kafkajs for this process. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import './kafkajs-defects.ts'

type Entry = { correlationId: number; resolve: () => void; reject: (error: Error) => void }
type Queue = {
  scheduleRequestTimeoutCheck(): void
  push(request: { entry: Entry; expectResponse: true; sendRequest: () => void }): void
  destroy(): void
}
const RequestQueue = createRequire(import.meta.url)('kafkajs/src/network/requestQueue/index.js') as new (options: {
  maxInFlightRequests: null
  requestTimeout: number
  enforceRequestTimeout: true
  clientId: string
  broker: string
  logger: object
  isConnected: () => boolean
}) => Queue

for (const [requestTimeout, looks, latestMs] of [
  [15_000, 60, 1_000],
  [1_000, 600, 100],
] as const)
  test(`a connection looks ${looks} times a minute for requests beyond ${requestTimeout} ms, and ends them`, (t) => {
    t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
    let looked = 0
    const queue = new RequestQueue({
      maxInFlightRequests: null,
      requestTimeout,
      enforceRequestTimeout: true,
      clientId: 'test',
      broker: 'broker:9092',
      logger: { debug: () => undefined },
      isConnected: () => {
        looked += 1
        return true
      },
    })
    queue.scheduleRequestTimeoutCheck()
    t.mock.timers.tick(60_000)
    assert.equal(looked, looks)
    let failed: Error | undefined
    const entry = { correlationId: 1, resolve: () => undefined, reject: (error: Error) => void (failed = error) }
    queue.push({ entry, expectResponse: true, sendRequest: () => undefined })
    t.mock.timers.tick(requestTimeout)
    assert.equal(failed, undefined)
    t.mock.timers.tick(latestMs)
    assert.match(String(failed), /timed out/)
    queue.destroy()
  })
