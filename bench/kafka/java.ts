/** Kafka's own client through Kafka's own tools. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { kafkaJars, kafkaJava } from '../../test/kit/stack/installed.ts'
import { RECORD_BYTES, type Place } from './client.ts'

const tool = async (name: string, ...words: string[]): Promise<string> => {
  const [jars, java] = await Promise.all([kafkaJars(), kafkaJava()])
  const { stdout } = await promisify(execFile)(
    java,
    ['-Xmx512m', '-cp', join(jars, '*'), `org.apache.kafka.tools.${name}`, ...words],
    { maxBuffer: 16 << 20, timeout: 300_000 },
  )
  return stdout
}

/** Bytes that it may hold unacknowledged, and in one batch. */
export type Room = { batch: number; memory: number }
export const AMPLE: Room = { batch: 256 << 10, memory: 32 << 20 }

/** The first `warmUp` records are sent before the clock starts. */
export const produce = async (
  { brokers, topic }: Place,
  records: number,
  warmUp: number,
  { batch, memory }: Room,
): Promise<{ seconds: number }> => {
  const said = await tool(
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
    said
      .trim()
      .split('\n')
      .map((line) => /records sent, ([\d.]+) records\/sec/.exec(line))
      .findLast((found) => found) ?? []
  if (!perSecond) throw new Error(`ProducerPerformance said: ${said}`)
  return { seconds: records / Number(perSecond) }
}

/** Without the time to join the group. */
export const consume = async ({ brokers, topic }: Place, records: number): Promise<{ seconds: number }> => {
  const said = await tool(
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
  const lines = said
    .trim()
    .split('\n')
    .map((line) => line.split(',').map((cell) => cell.trim()))
  const at = lines[0]!.indexOf('fetch.nMsg.sec')
  const perSecond = Number(lines.at(-1)?.[at])
  if (at < 0 || !(perSecond > 0)) throw new Error(`ConsumerPerformance said: ${said}`)
  return { seconds: records / perSecond }
}
