/** Waits for started servers by polling them. */
import { connect, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Guarded } from './guarded.ts'

/**
 * A port for a server that may be stopped and started again: below the ephemeral ports, so that no client takes it
 * meanwhile. Each process searches from a different start.
 */
export const freePort = async (): Promise<number> => {
  for (let tries = 0; tries < PORTS; tries += 1) {
    const port = FIRST_PORT + (next++ % PORTS)
    if (await isFree(port)) return port
  }
  throw new Error(`no port from ${FIRST_PORT} on is free`)
}

const FIRST_PORT = 10_240
const PORTS = 21_504
let next = process.pid * 64

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host: '127.0.0.1', port }, () => server.close(() => resolve(true)))
  })

/**
 * Polls until the result is true. Throws with the output of the program when it has ended or after `limit`
 * milliseconds.
 */
export const untilReady = async (
  what: string,
  program: Guarded,
  ask: () => Promise<boolean>,
  limit = 120_000,
): Promise<void> => {
  let ended: number | undefined
  program.exited.then(
    (status) => {
      ended = status
    },
    () => {
      ended = -1
    },
  )
  for (const end = performance.now() + limit; ; await delay(50)) {
    if (ended !== undefined) throw new Error(`${what} ended with status ${ended}:\n${program.said()}`)
    if (await ask().catch(() => false)) return
    if (performance.now() > end) throw new Error(`${what} is not ready after ${limit} ms:\n${program.said()}`)
  }
}

/** An ApiVersions round trip, since a broker that listens may not serve yet. */
export const brokerAnswers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, timeout: 1000 })
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => socket.write(Buffer.from([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255])))
    socket.once('data', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => resolve(false))
  })
