/**
 * What open pages ask of the gateway, from a plain client without a browser, in a process of its own: receives `Asked` by IPC,
 * opens the streams, replies `ready`, sends each request at its time after a message `go`, and ends with its connections at
 * `stop`. `requests-client.ts PORT`.
 */
import { Agent, get, type ClientRequest } from 'node:http'

/** `streams`: of figures, held open. `requests`: paths by the time after the beginning, in ms. */
export type Asked = { streams: number; requests: readonly { at: number; path: string }[] }

const EVENTS = '/v1/dashboard/events'
/** As a browser, six connections for each page. */
const SOCKETS = 6

const port = Number(process.argv[2])
const streams: ClientRequest[] = []
let agent = new Agent({ keepAlive: true })
let asked: Asked = { streams: 0, requests: [] }

const begin = async (): Promise<void> => {
  agent = new Agent({ keepAlive: true, maxSockets: SOCKETS * Math.max(1, asked.streams) })
  await Promise.all(
    Array.from(
      { length: asked.streams },
      () =>
        new Promise<void>((resolve, reject) => {
          const stream = get({ port, path: EVENTS, agent: false }, (response) => {
            response.resume()
            response.once('data', () => resolve())
          })
          stream.once('error', reject)
          streams.push(stream)
        }),
    ),
  )
}
const ask = (path: string): void => {
  get({ port, path, agent, headers: { 'accept-encoding': 'gzip, deflate, br' } }, (response) => response.resume()).on(
    'error',
    () => undefined,
  )
}
const timers: NodeJS.Timeout[] = []

process.on('message', (message: Asked | 'go' | 'stop') => {
  if (message === 'go') for (const { at, path } of asked.requests) timers.push(setTimeout(() => ask(path), at))
  else if (message === 'stop') {
    for (const timer of timers) clearTimeout(timer)
    for (const stream of streams) stream.on('error', () => undefined).destroy()
    agent.destroy()
    process.disconnect()
  } else {
    asked = message
    void begin().then(
      () => process.send!('ready'),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
  }
})
process.send!('started')
