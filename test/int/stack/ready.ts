/** Waiting for what was started, by asking it. */
import { connect, createServer, type AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Guarded } from './guarded.ts'

/** A port of the loopback that is free now. */
export const freePort = (): Promise<number> => new Promise((resolve, reject) => {
  const server = createServer()
  server.once('error', reject)
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resolve(port))
  })
})

/** Asks until the answer is yes. Throws with what the program wrote when it has ended or `limit` milliseconds have passed. */
export const untilReady = async (what: string, program: Guarded, ask: () => Promise<boolean>, limit = 120_000): Promise<void> => {
  let ended: number | undefined
  program.exited.then((status) => { ended = status }, () => { ended = -1 })
  for (const end = performance.now() + limit; ; await delay(50)) {
    if (ended !== undefined) throw new Error(`${what} ended with status ${ended}:\n${program.said()}`)
    if (await ask().catch(() => false)) return
    if (performance.now() > end) throw new Error(`${what} is not ready after ${limit} ms:\n${program.said()}`)
  }
}

/** An ApiVersions round trip: a broker that listens may not serve yet. */
export const brokerAnswers = (port: number): Promise<boolean> => new Promise((resolve) => {
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
