/** Logs of several processes on the brokers of the integration tests, with topics and schemas of their own. */
import { schemaTexts } from '@instar/events'
import { openKafkaLog, setupKafka, setupSchemas, type KafkaLog } from '@instar/log/kafka/index'
import { addresses } from './stack.ts'

type KafkaLogs = { open(clientId: string): Promise<KafkaLog>; close(): Promise<void> }

/** `name`: of the test, short, for the topics' prefix. */
export const kafkaLogs = async (name: string): Promise<KafkaLogs> => {
  const { brokers, registry } = addresses()
  const prefix = `${name}${process.pid}.`
  const schemas = schemaTexts()
  await setupKafka({ brokers, prefix })
  await setupSchemas({ brokers, prefix, registry, schemas })
  const logs: KafkaLog[] = []
  return {
    async open(clientId) {
      const log = await openKafkaLog({ brokers, prefix, clientId, registry, schemas })
      logs.push(log)
      return log
    },
    async close() {
      for (const log of logs) await log.close()
    },
  }
}
