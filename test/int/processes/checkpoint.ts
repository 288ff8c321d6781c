/**
 * Writes a checkpoint of the trainer on Kafka, and stops for good before its record is appended, or when it is and nothing has
 * been done after it. Prints a line then, and waits to be killed.
 */
import { schemaTexts } from '@instar/events'
import { writeCheckpoint } from '@instar/log'
import { openKafkaLog } from '@instar/log/kafka/index'
import { trainerFold } from '@instar/trainer'

export type CheckpointPlace = { brokers: string[]; registry: string; folder: string; stop: 'before' | 'after' }

const { brokers, registry, folder, stop } = JSON.parse(process.argv[2]!) as CheckpointPlace
const log = await openKafkaLog({ brokers, registry, clientId: 'checkpoint', schemas: schemaTexts() })
const append = log.append.bind(log)
log.append = async (records) => {
  if (stop === 'after') await append(records)
  process.stdout.write(`${records.map(({ schema }) => schema).join(' ')}\n`)
  return new Promise(() => undefined)
}
setInterval(() => undefined, 60_000)
await writeCheckpoint(log, trainerFold, {
  policy: 'policy',
  folder,
  now: () => Date.now(),
  observer: { onProgress: () => undefined },
  signal: new AbortController().signal,
})
