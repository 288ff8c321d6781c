/**
 * Patches of three defects of kafkajs 2.2.4, for this process:
 * - A connection's request queue checks pending requests with a timer of one millisecond. kafkajs also sets it if the
 *   queue is empty: a thousand wake-ups per second for each idle connection, and a Node warning about a negative
 *   timeout.
 * - Each connection looks for requests that are overdue every 100 ms, which took most of the CPU of an idle process. Here it looks
 *   ten times as often as requests may take, and every second at most.
 * - Two concurrent first requests on a connection each open a socket, one of which is never closed, so the process does
 *   not exit.
 */
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

type RequestQueue = {
  pending: readonly unknown[]
  inflight: ReadonlyMap<number, { sentAt: number; requestTimeout: number; timeoutRequest(): void }>
  requestTimeout: number
  enforceRequestTimeout: boolean
  requestTimeoutIntervalId: NodeJS.Timeout
  isConnected(): boolean
  destroy(): void
  scheduleCheckPendingRequests(): void
  scheduleRequestTimeoutCheck(): void
}
const { prototype: queue } = require('kafkajs/src/network/requestQueue/index.js') as { prototype: RequestQueue }
const schedule = queue.scheduleCheckPendingRequests
queue.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) schedule.call(this)
}
queue.scheduleRequestTimeoutCheck = function (this: RequestQueue): void {
  if (!this.enforceRequestTimeout) return
  this.destroy()
  const look = (): void => {
    const now = Date.now()
    for (const request of this.inflight.values())
      if (now - request.sentAt > request.requestTimeout) request.timeoutRequest()
    if (!this.isConnected()) this.destroy()
  }
  this.requestTimeoutIntervalId = setInterval(look, Math.min(1000, this.requestTimeout / 10))
}

type Connection = { connect(): Promise<true> }
const { prototype: connection } = require('kafkajs/src/network/connection.js') as { prototype: Connection }
const open = connection.connect
const opening = new WeakMap<Connection, Promise<true>>()
connection.connect = function (this: Connection): Promise<true> {
  const connecting = opening.get(this)
  if (connecting) return connecting
  const attempt = open.call(this).finally(() => opening.delete(this))
  opening.set(this, attempt)
  return attempt
}
