/**
 * The client of the gateway bench, a child process: receives a run by IPC, sends its requests, replies with the
 * outcome.
 */
import { once } from 'node:events'
import { Connection } from './connection.ts'
import { RequestGenerator, type Size } from './prompts.ts'

/**
 * `connections`: a closed loop, each connection sends a request after the answer to the one before. `perSecond`: an
 * open loop, requests are sent at this rate whether or not the earlier ones have been answered.
 */
export type Load = { connections: number; seconds: number } | { perSecond: number; seconds: number }
export type Run = { port: number; headers: readonly string[]; size: Size; stream: boolean; load: Load }
/**
 * `totals`, `firsts`: time from when a request was due to the end and to the first byte of its answer, ms. `failed`:
 * requests without a complete answer of status 200. `example`: the body of an answer.
 */
export type Outcome = {
  count: number
  failed: number
  seconds: number
  totals: number[]
  firsts: number[]
  example: string
}

type Lane = { connection: Connection; requests: RequestGenerator }

const run = async ({ port, headers, size, stream, load }: Run): Promise<Outcome> => {
  const outcome: Outcome = { count: 0, failed: 0, seconds: load.seconds, totals: [], firsts: [], example: '' }
  let seeds = 0
  const lanes: Lane[] = []
  const openLane = async (): Promise<Lane> => {
    const lane = {
      connection: await Connection.open(port),
      requests: new RequestGenerator({ size, stream, host: `127.0.0.1:${port}`, headers }, ++seeds),
    }
    lanes.push(lane)
    return lane
  }
  /** `due`: when the request was to be sent; `until`: an answer that ends later is not counted. */
  const send = async (lane: Lane, due: number, until: number): Promise<void> => {
    const { ok, firstAt, endedAt, body } = await lane.connection.send(
      lane.requests.next(),
      lane.requests.grows || outcome.example === '',
    )
    outcome.example ||= body
    if (!ok) {
      outcome.failed += 1
      lane.connection = await Connection.open(port)
    } else if (endedAt <= until) {
      outcome.count += 1
      outcome.totals.push(endedAt - due)
      outcome.firsts.push(firstAt - due)
    }
    if (ok && lane.requests.grows)
      lane.requests.addAnswer(
        (
          JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1)) as {
            choices: { message: { content: string } }[]
          }
        ).choices[0]!.message.content,
      )
  }
  /** The parent process reads the CPU times of the subjects before the load. */
  const waitForParent = async (): Promise<number> => {
    process.send!('ready')
    await once(process, 'message')
    return performance.now()
  }

  if ('connections' in load) {
    const open = await Promise.all(Array.from({ length: load.connections }, openLane))
    const from = await waitForParent()
    const until = from + 1000 * load.seconds
    await Promise.all(
      open.map(async (lane) => {
        for (let now = from; now < until; now = performance.now()) await send(lane, now, until)
      }),
    )
  } else {
    const free = await Promise.all(Array.from({ length: 8 }, openLane))
    const from = await waitForParent()
    const sent: Promise<void>[] = []
    for (let at = 0; at < load.perSecond * load.seconds; at++) {
      const due = from + (1000 * at) / load.perSecond
      while (performance.now() < due)
        await new Promise((resolve) => {
          setTimeout(resolve, due - performance.now())
        })
      sent.push(
        (async () => {
          const lane = free.pop() ?? (await openLane())
          await send(lane, due, Infinity)
          free.push(lane)
        })(),
      )
    }
    await Promise.all(sent)
  }
  for (const { connection } of lanes) connection.close()
  return outcome
}

process.on('message', (message: Run | 'go') => {
  if (message !== 'go')
    void run(message).then(
      (outcome) => process.send!(outcome),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
})
process.on('disconnect', () => process.exit(0))
process.send!('ready')
