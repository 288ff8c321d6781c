/** On request, appends from 16 callers until it is killed; prints `caller call` for every acknowledged call. */
import { once } from 'node:events'
import type { EventLog } from '@instar/log'
import { note, range } from '../harness.ts'

const [module, place, round] = process.argv.slice(2) as [string, string, string]
const { openElsewhere } = (await import(module)) as {
  openElsewhere(place: string, readOnly: boolean): Promise<EventLog>
}
await once(process.stdin, 'data')
const log = await openElsewhere(place, false)

await Promise.all(
  range(16).map(async (caller) => {
    for (let call = 0; ; call++) {
      const filler = String(call % 10).repeat(100 + ((call * 397) % 4000))
      await log.append(
        range(3).flatMap((i) =>
          [0, 1].map((half) => note(`${round}.${caller}.${half}`, `${round}.${caller}.${half}.${call}.${i}|${filler}`)),
        ),
      )
      process.stdout.write(`${caller} ${call}\n`)
    }
  }),
)
