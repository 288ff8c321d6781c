/**
 * Appends one record after another, refused ones again, until the log is broken; prints the number of acknowledged
 * records, the error codes, and the error of its subscription. After the first refusal it prints `refused` and waits
 * for a line.
 */
import { InstarError } from '@instar/events/errors'
import type { EventLog } from '@instar/log'
import { once } from 'node:events'
import { note } from '../harness.ts'

const [module, place] = process.argv.slice(2) as [string, string]
const { openElsewhere } = (await import(module)) as {
  openElsewhere(place: string, readOnly: boolean): Promise<EventLog>
}
const log = await openElsewhere(place, false)
const follower = await log.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => {} })
const ended = follower.done.then(
  () => 'stopped',
  (error: unknown) => (error as InstarError).code,
)
const codes: string[] = []
let acknowledged = 0
while (codes.at(-1) !== 'log_broken' && codes.length < 10 && acknowledged < 200) {
  try {
    await log.append([note('k', `${acknowledged}|${'x'.repeat(50_000)}`)])
    acknowledged++
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    codes.push(error.code)
    if (codes.length === 1) {
      process.stdout.write('refused\n')
      await once(process.stdin, 'data')
      process.stdin.destroy()
    }
  }
}
process.stdout.write(JSON.stringify({ acknowledged, codes, ended: codes.at(-1) === 'log_broken' ? await ended : null }))
await log.close()
