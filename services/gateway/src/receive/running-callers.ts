/** Requests that run: told once when they are over, and ended when their key is no longer valid. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Socket } from 'node:net'
import { LOOK_MS } from './keyring.ts'

/** How long a stream may take to send its error after its key was revoked. */
const LAST_WORDS_MS = 3000

/** `notified`: whoever handles the request hears of `ended`, and sends the error. */
type RunningCaller = { ended: AbortController; notified: boolean; over: boolean; raw: FastifyReply['raw'] }

/** Checks at intervals, while there is one. `why`: the reason why a request may not go on, or null. */
export class RunningCallers<Caller extends RunningCaller> {
  private readonly why: (caller: Caller) => Error | null
  private readonly callers = new Set<Caller>()
  private timer: NodeJS.Timeout | null = null

  constructor(why: (caller: Caller) => Error | null) {
    this.why = why
  }

  add(caller: Caller): void {
    this.callers.add(caller)
    this.timer ??= setInterval(() => this.sweep(), LOOK_MS)
    this.timer.unref()
  }

  delete(caller: Caller): void {
    this.callers.delete(caller)
    if (this.callers.size === 0) this.stop()
  }

  stop(): void {
    if (this.timer) clearInterval(this.timer)
    this.timer = null
  }

  private sweep(): void {
    for (const caller of this.callers) {
      const why = this.why(caller)
      if (why === null) continue
      this.callers.delete(caller)
      caller.ended.abort(why)
      if (!caller.notified) caller.raw.destroy()
      else
        setTimeout(() => {
          if (!caller.over) caller.raw.destroy()
        }, LAST_WORDS_MS).unref()
    }
    if (this.callers.size === 0) this.stop()
  }
}

/**
 * A function that calls `end` once, when the response is closed, or the connection if the request was pipelined behind
 * another one.
 */
export const createOnceOver = (): ((request: FastifyRequest, reply: FastifyReply, end: () => void) => void) => {
  const sockets = new WeakMap<Socket, Set<() => void>>()
  return (request, reply, end) => {
    const { socket } = request.raw
    let ends = sockets.get(socket)
    if (!ends) {
      ends = new Set()
      sockets.set(socket, ends)
      socket.once('close', () => {
        for (const one of sockets.get(socket) ?? []) one()
      })
    }
    ends.add(end)
    reply.raw.once('close', () => {
      ends.delete(end)
      end()
    })
  }
}
