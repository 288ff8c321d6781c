/** The log on Kafka, as the services use it. */
import { openKafkaLog } from '@instar/log/kafka/index'
import { randomText } from './text.ts'
import { RECORD_BYTES, type Open } from './client.ts'

const SCHEMA = 'Bench.v1'
const payload = randomText(RECORD_BYTES)

export const open: Open = async ({ brokers, prefix }) => {
  const log = await openKafkaLog({
    brokers,
    prefix,
    clientId: 'bench',
    registry: new Map([[SCHEMA, 1]]),
    schemas: { [SCHEMA]: '"bytes"' },
  })
  return {
    produce: (keys) =>
      log.append(keys.map((key) => ({ topic: 'turns', key, schema: SCHEMA, payload, timestamp: Date.now() }))),
    async consume(records) {
      const received = Promise.withResolvers<void>()
      let count = 0
      const subscription = await log.subscribe({
        topics: ['turns'],
        group: 'bench',
        from: 'start',
        handle(batch) {
          count += batch.length
          if (count >= records) received.resolve()
        },
      })
      await Promise.race([received.promise, subscription.done])
      await subscription.stop()
    },
    close: () => log.close(),
  }
}
