/** Follows `turns` of a log that another process writes; prints `key text` for every record. */
import { follow, type EventLog } from '@instar/log'
import { textOf } from '../harness.ts'

const [module, place] = process.argv.slice(2) as [string, string]
const { openElsewhere } = (await import(module)) as {
  openElsewhere(place: string, readOnly: boolean): Promise<EventLog>
}
const log = await openElsewhere(place, true)
const follower = await follow(log, {
  name: 'reader',
  topics: ['turns'],
  from: 'start',
  decode: textOf,
  onEvent: (text, { key }) => void process.stdout.write(`${key} ${text}\n`),
})
await follower.caughtUp()
process.stdout.write('caught up\n')
