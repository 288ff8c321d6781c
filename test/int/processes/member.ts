/** A member of the group on `turns`: prints its share as JSON whenever it changes. Leaves at the end of its input. */
import { once } from 'node:events'
import { openKafkaLog } from '@instar/log/kafka/index'
import { NOTE, range, SCHEMAS } from '../../kit/event-log/harness.ts'

const [place] = process.argv.slice(2) as [string]
const { brokers, prefix, session } = JSON.parse(place) as { brokers: string[]; prefix: string; session: number }
const log = await openKafkaLog({
  brokers,
  prefix,
  session,
  clientId: `member-${process.pid}`,
  schemas: SCHEMAS,
  registry: new Map([[NOTE, 1]]),
})
const share = await log.joinGroup('workers', 'turns', () =>
  process.stdout.write(
    `${JSON.stringify({ share: range(log.partitions('turns')).filter((partition) => share.owns(partition)) })}\n`,
  ),
)
process.stdin.resume()
await once(process.stdin, 'end')
await log.close()
