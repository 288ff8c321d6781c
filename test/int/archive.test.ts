/** `instar archive` on its own broker: an archive is restored into Kafka, and the log on Kafka is archived and restored. */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { deepEqual, equal } from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { longHistory, records } from '../kit/projected-history.ts'
import { startKafka, type KafkaCluster } from '../kit/stack/kafka.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let kafka: KafkaCluster
before(async () => {
  folder = await temporaryFolder()
  kafka = await startKafka({ folder: join(folder.path, 'kafka') })
})
after(async () => {
  await kafka.stop()
  await folder.remove()
})

type Report = { copied: number; equal: boolean; topics: { turns: { records: number } }; added: { records: number } }

test('an archive of an embedded log is restored into Kafka, and an archive of that has the same turns', async () => {
  const [data, back, one, two] = ['data', 'back', 'one', 'two'].map((name) => join(folder.path, name)) as [
    string,
    string,
    string,
    string,
  ]
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(records([...longHistory(500)]))
  await log.close()
  const onKafka = { INSTAR_LOG: `kafka://${kafka.brokers.join(',')}`, INSTAR_REGISTRY: addresses().registry }
  const done = async (args: string[], env: Record<string, string>): Promise<Report> => {
    const { code, json, err } = await instar(['archive', ...args, '--json'], env)
    equal(code, 0, err)
    return json as Report
  }
  equal((await instar(['setup', '--json'], onKafka)).code, 0)
  const first = await done(['--to', one], { INSTAR_DATA: data })
  const there = await done(['restore', '--from', one], { ...onKafka, INSTAR_DATA: data })
  deepEqual([there.copied, there.equal], [first.added.records, true])

  await done(['--to', two], { ...onKafka, INSTAR_DATA: data })
  equal((await done(['--to', two], { ...onKafka, INSTAR_DATA: data })).added.records, 0)
  await done(['verify', '--from', two], {})
  const { log: against } = (await done(['verify', '--from', two, '--log'], onKafka)) as Report & { log: unknown }
  deepEqual(against, { records: first.added.records + 1, damaged: 0, behind: 0, checkpoints: [], first: null })
  await done(['restore', '--from', two], { INSTAR_DATA: back })
  const compared = await instar(['log', 'copy', '--from', `embedded:${data}`, '--to', `embedded:${back}`, '--json'], {})
  const { skipped, copied } = compared.json as { skipped: number; copied: number }
  deepEqual([compared.code, skipped, copied], [0, first.added.records, 0], compared.err)
})
