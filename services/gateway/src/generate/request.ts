/**
 * What every request to the model has: an end (client disconnected, key revoked, time over) and a place in the engine's
 * queue.
 */
import { asInstarError } from '@instar/dialects'
import { InstarError } from '@instar/events'
import { orAborted } from '@instar/engine/or-aborted'
import type { ServingEngine } from '@instar/engine/port'
import type { ServerResponse } from 'node:http'
import type { Background } from './background.ts'
import { Cancelled } from './candidate.ts'
import type { Capture } from '../capture/capture.ts'
import type { IdleQueue } from './idle-queue.ts'
import { startDeadline, type Deadline } from './deadline.ts'
import type { Lease, Pool } from '../versions/pool.ts'
import type { Running } from './running.ts'

export type RequestPorts = {
  engine: ServingEngine
  capture: Capture
  pool: Pool
  running: Running
  background: Background
  idle: IdleQueue
  maxWaiting: number
  answerTimeoutMs: number
}

export type ModelRequest = {
  before: Deadline['before']
  /** Aborted with a `Cancelled` when the request ends early. */
  controller: AbortController
  /** Takes a place among the requests of the engine until the request ends. Throws `overloaded` if too many wait. */
  takePlace(): void
  /** Takes a place and leases a version until the request ends. Throws as `takePlace`. */
  enter(version: number | null): Promise<Lease>
}

/**
 * Runs `work` until it is done, the client disconnects, the key is revoked or the time is over, then releases the
 * lease. Throws only InstarError.
 */
export const requesting = async <T>(
  ports: RequestPorts,
  { response, revoked }: { response: ServerResponse; revoked: AbortSignal },
  work: (request: ModelRequest) => Promise<T>,
): Promise<T> => {
  const controller = new AbortController()
  const gone = (): void => {
    if (!response.writableFinished) controller.abort(new Cancelled('client_gone'))
  }
  response.once('close', gone)
  if (response.destroyed) gone()
  const deadline = startDeadline(ports.answerTimeoutMs, controller, revoked)
  let lease: Lease | null = null
  let placed = false
  const takePlace = (): void => {
    if (placed) return
    ports.idle.yield()
    checkQueue(ports)
    ports.running.add(controller)
    placed = true
  }
  const enter = async (version: number | null): Promise<Lease> => {
    takePlace()
    if (!controller.signal.aborted) lease = ports.pool.leaseNow(version)
    return (lease ??= await orAborted(ports.pool.lease(version), controller.signal, (late) => late.release()))
  }
  try {
    return await work({ before: deadline.before, controller, takePlace, enter })
  } catch (error) {
    controller.abort(new Cancelled('engine_failed'))
    // An engine reports a cancellation as `aborted`. The signal's reason is more specific.
    const cut = error instanceof InstarError && error.code === 'aborted'
    throw faultOfCancellation(cut ? controller.signal.reason : error)
  } finally {
    deadline.clear()
    ;(lease as Lease | null)?.release()
    ports.running.delete(controller)
    ports.idle.wake()
    response.off('close', gone)
  }
}

/** Counts requests that the engine has not queued yet. */
const checkQueue = ({ engine, running, capture, maxWaiting }: RequestPorts): void => {
  const pending = engine.pending()
  const before = Math.max(pending.waiting, running.size - capture.queue().pending - pending.running)
  if (before > 0 && before >= maxWaiting) throw new InstarError('overloaded', 'Too many requests wait for the model.')
}

/** The client's error for a cancellation that the client did not cause. */
export const faultOfCancellation = (error: unknown): InstarError => {
  if (!(error instanceof Cancelled)) return asInstarError(error)
  if (error.fault) return error.fault
  return error.why === 'client_gone'
    ? new InstarError('aborted', 'The client closed the connection.')
    : error.why === 'shutdown'
      ? new InstarError('stopping', 'The gateway is shutting down.')
      : new InstarError('engine_lost', 'The model failed in the middle of an answer.')
}
