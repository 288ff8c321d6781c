import { randomUUID } from 'node:crypto'
import type { EventLog } from '@instar/log'
import { openKafkaLog, setupKafka, setupSchemas } from '@instar/log/kafka/index'
import { Kafka, logLevel } from 'kafkajs'
import { CUT_SCHEMAS, type OpenOptions, type Opened } from '../kit/event-log/harness.ts'
import { allSeen } from '../kit/stack/sockets.ts'
import { addresses } from '../kit/stack.ts'

/** A log on the run's broker whose topics have their own prefix. */
type Place = { brokers: string[]; registry: string; prefix: string; partitions?: OpenOptions['partitions'] }

const openAt = ({ brokers, registry, prefix, partitions }: Place, options: OpenOptions = {}): Promise<EventLog> =>
  openKafkaLog({
    brokers,
    registry,
    prefix,
    clientId: `test-${process.pid}`,
    schemas: CUT_SCHEMAS,
    partitions,
    ...options,
  })

export const openElsewhere = (place: string): Promise<EventLog> => openAt(JSON.parse(place) as Place)

export const openKafka = async (options: OpenOptions = {}): Promise<Opened> => {
  const { brokers, registry } = addresses()
  const place: Place = { brokers, registry, prefix: `${randomUUID().slice(0, 8)}.`, partitions: options.partitions }
  await setupKafka({ brokers, prefix: place.prefix, partitions: options.partitions })
  await setupSchemas({ brokers, prefix: place.prefix, registry, schemas: CUT_SCHEMAS })
  const opened: EventLog[] = []
  const open = async (again: OpenOptions): Promise<EventLog> => {
    const log = await openAt(place, { ...options, ...again })
    opened.push(log)
    return log
  }
  return {
    log: await open({}),
    async reopen(again = {}) {
      await allSeen(brokers)
      return open(again)
    },
    async remove() {
      for (const log of opened) await log.close()
      const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
      await admin.connect()
      const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(place.prefix))
      await admin.deleteTopics({ topics })
      await admin.disconnect()
    },
    elsewhere: { module: import.meta.url, place: JSON.stringify(place) },
  }
}
