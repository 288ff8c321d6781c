import { schemaTexts } from '@instar/events'
import { openKafkaLog, setupKafka, setupSchemas } from '@instar/log/kafka/index'
import { snapshotFeatures } from '../snapshots/snapshots.features.ts'
import { addresses } from '../kit/stack.ts'

let count = 0

snapshotFeatures(
  'kafka',
  async () => {
    const { brokers, registry } = addresses()
    const prefix = `snapshots${process.pid}.${count++}.`
    const schemas = schemaTexts()
    await setupKafka({ brokers, prefix })
    await setupSchemas({ brokers, prefix, registry, schemas })
    const log = await openKafkaLog({ brokers, prefix, clientId: 'snapshots', registry, schemas })
    return { log, close: () => log.close() }
  },
  2,
)
