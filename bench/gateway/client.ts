/** The bench's client, a process of its own: told a load, it says how the requests went. */
import { once } from 'node:events'
import { Connection } from './connection.ts'
import { Talk, type Size } from './prompts.ts'

/** `connections`: as many requests at a time, each after the last. `perSecond`: begun on time, whether or not the last are answered. */
export type Load = { connections: number; seconds: number } | { perSecond: number; seconds: number }
export type Run = { port: number; headers: readonly string[]; size: Size; stream: boolean; load: Load }
/** Milliseconds from the intended start, one of each answered request; `failed`: those that were not answered as they should. */
export type Outcome = {
  count: number
  failed: number
  seconds: number
  totals: number[]
  firsts: number[]
  example: string
}

type Line = { connection: Connection; talk: Talk }

const run = async ({ port, headers, size, stream, load }: Run): Promise<Outcome> => {
  const outcome: Outcome = { count: 0, failed: 0, seconds: load.seconds, totals: [], firsts: [], example: '' }
  let seeds = 0
  const lines: Line[] = []
  const line = async (): Promise<Line> => {
    const one = {
      connection: await Connection.open(port),
      talk: new Talk({ size, stream, host: `127.0.0.1:${port}`, headers }, ++seeds),
    }
    lines.push(one)
    return one
  }
  /** `due`: when it should have begun; `until`: answered later does not count. */
  const ask = async (at: Line, due: number, until: number): Promise<void> => {
    const { ok, firstAt, endedAt, body } = await at.connection.ask(
      at.talk.next(),
      at.talk.grows || outcome.example === '',
    )
    outcome.example ||= body
    if (!ok) {
      outcome.failed += 1
      at.connection = await Connection.open(port)
    } else if (endedAt <= until) {
      outcome.count += 1
      outcome.totals.push(endedAt - due)
      outcome.firsts.push(firstAt - due)
    }
    if (ok && at.talk.grows)
      at.talk.answered(
        (
          JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1)) as {
            choices: { message: { content: string } }[]
          }
        ).choices[0]!.message.content,
      )
  }
  /** Whoever asked reads the clocks of the others first. */
  const begin = async (): Promise<number> => {
    process.send!('ready')
    await once(process, 'message')
    return performance.now()
  }

  if ('connections' in load) {
    const all = await Promise.all(Array.from({ length: load.connections }, line))
    const from = await begin()
    const until = from + 1000 * load.seconds
    await Promise.all(
      all.map(async (one) => {
        for (let now = from; now < until; now = performance.now()) await ask(one, now, until)
      }),
    )
  } else {
    const free = await Promise.all(Array.from({ length: 8 }, line))
    const from = await begin()
    const asked: Promise<void>[] = []
    for (let at = 0; at < load.perSecond * load.seconds; at++) {
      const due = from + (1000 * at) / load.perSecond
      while (performance.now() < due)
        await new Promise((resolve) => {
          setTimeout(resolve, due - performance.now())
        })
      asked.push(
        (async () => {
          const one = free.pop() ?? (await line())
          await ask(one, due, Infinity)
          free.push(one)
        })(),
      )
    }
    await Promise.all(asked)
  }
  for (const { connection } of lines) connection.close()
  return outcome
}

process.on('message', (given: Run | 'go') => {
  if (given !== 'go')
    void run(given).then(
      (outcome) => process.send!(outcome),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
})
process.on('disconnect', () => process.exit(0))
process.send!('ready')
