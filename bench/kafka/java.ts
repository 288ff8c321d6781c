/** The Java client of Kafka, by Kafka's performance tools. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { kafkaJars, kafkaJava } from '../../test/kit/stack/installed.ts'
import { RECORD_BYTES, type TopicAddress } from './client.ts'

const runTool = async (name: string, ...args: string[]): Promise<string> => {
  const [jars, java] = await Promise.all([kafkaJars(), kafkaJava()])
  const { stdout } = await promisify(execFile)(
    java,
    ['-Xmx512m', '-cp', join(jars, '*'), `org.apache.kafka.tools.${name}`, ...args],
    { maxBuffer: 16 << 20, timeout: 300_000 },
  )
  return stdout
}

/** `batch.size` and `buffer.memory` of the producer, bytes. */
export type ProducerMemory = { batch: number; memory: number }
export const LARGE_MEMORY: ProducerMemory = { batch: 256 << 10, memory: 32 << 20 }

/** Sends `warmUp` records first, which are not measured. */
export const produce = async (
  { brokers, topic }: TopicAddress,
  records: number,
  warmUp: number,
  { batch, memory }: ProducerMemory,
): Promise<{ seconds: number }> => {
  const output = await runTool(
    'ProducerPerformance',
    '--bootstrap-server',
    brokers.join(','),
    '--topic',
    topic,
    '--num-records',
    String(records + warmUp),
    '--warmup-records',
    String(warmUp),
    '--record-size',
    String(RECORD_BYTES),
    '--throughput',
    '-1',
    '--reporting-interval',
    '600000',
    '--command-property',
    'acks=all',
    'linger.ms=5',
    `batch.size=${batch}`,
    `buffer.memory=${memory}`,
  )
  const [, perSecond] =
    output
      .trim()
      .split('\n')
      .map((line) => /records sent, ([\d.]+) records\/sec/.exec(line))
      .findLast((match) => match) ?? []
  if (!perSecond) throw new Error(`the output of ProducerPerformance has no rate: ${output}`)
  return { seconds: records / Number(perSecond) }
}

/** The time to join the group is not measured. */
export const consume = async ({ brokers, topic }: TopicAddress, records: number): Promise<{ seconds: number }> => {
  const output = await runTool(
    'ConsumerPerformance',
    '--bootstrap-server',
    brokers.join(','),
    '--topic',
    topic,
    '--num-records',
    String(records),
    '--timeout',
    '30000',
  )
  const lines = output
    .trim()
    .split('\n')
    .map((line) => line.split(',').map((cell) => cell.trim()))
  const column = lines[0]!.indexOf('fetch.nMsg.sec')
  const perSecond = Number(lines.at(-1)?.[column])
  if (column < 0 || !(perSecond > 0)) throw new Error(`the output of ConsumerPerformance has no rate: ${output}`)
  return { seconds: records / perSecond }
}
