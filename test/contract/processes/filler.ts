/** Appends one by one until the log refuses, once more after that; prints how many were acknowledged and the codes. */
import { InstarError } from '@instar/events/errors'
import type { EventLog } from '@instar/log'
import { note } from '../event-log.harness.ts'

const [module, place] = process.argv.slice(2) as [string, string]
const { openElsewhere } = await import(module) as { openElsewhere(place: string, readOnly: boolean): Promise<EventLog> }
const log = await openElsewhere(place, false)
const codes: string[] = []
let acknowledged = 0
while (codes.length < 2) {
  try {
    await log.append([note('k', `${acknowledged}|${'x'.repeat(50_000)}`)])
    acknowledged++
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    codes.push(error.code)
  }
}
process.stdout.write(JSON.stringify({ acknowledged, codes }))
await log.close()
