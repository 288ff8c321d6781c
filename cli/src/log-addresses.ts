/** Logs named on the command line: `embedded[:FOLDER]` or `kafka://host:port,…`. */
import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { hasEmbeddedLog, openEmbeddedLog, type EmbeddedLog, type EventLog } from '@instar/log'
import {
  brokersOf,
  openKafkaLog,
  storedPartitions,
  type KafkaLog,
  type RegistryAccess,
  type Security,
} from '@instar/log/kafka/index'
import { kafkaSecurity, logFolder, registryOf, withArchiveAt, type ArchivePlace } from '@instar/process'
import { resolve } from 'node:path'
import { UsageError } from './command.ts'
import type { Config } from './config.ts'

const CLIENT_ID = 'instar log copy'

export type LogAddress =
  | { kind: 'embedded'; folder: string }
  | { kind: 'kafka'; brokers: string[]; registry: RegistryAccess; security?: Security }

/**
 * FOLDER is a data folder, as INSTAR_DATA names one; default: that of INSTAR_DATA. `registry`: URL of the schema
 * registry of a log on Kafka. Throws `UsageError`, and `bad_request` where the registry is missing.
 */
export const parseLogAddress = (text: string, config: Config, cwd: string, registry: string | null): LogAddress => {
  const embedded = /^embedded(?::(.+))?$/.exec(text)
  if (embedded)
    return {
      kind: 'embedded',
      folder: logFolder({ data: embedded[1] === undefined ? config.data : resolve(cwd, embedded[1]) }),
    }
  if (!text.startsWith('kafka://'))
    throw new UsageError(`${text} is not the address of a log (embedded:FOLDER or kafka://host:port,…)`)
  const security = kafkaSecurity(config)
  return {
    kind: 'kafka',
    brokers: brokersOf(text),
    registry: registryOf({ ...config, log: text, registry }),
    ...(security ? { security } : {}),
  }
}

/** Whether both name one folder, or brokers in common. */
export const sameLog = (a: LogAddress, b: LogAddress): boolean =>
  a.kind === 'embedded'
    ? b.kind === 'embedded' && a.folder === b.folder
    : b.kind === 'kafka' && a.brokers.some((broker) => b.brokers.includes(broker))

/**
 * Opens a log for reading, with the partition counts that it has. `archive`: of what was cut from it. Throws `data_unreadable`,
 * `not_set_up`.
 */
export const openSource = async (
  address: LogAddress,
  archive: ArchivePlace | null,
  logLine: (line: string) => void,
): Promise<EmbeddedLog | KafkaLog> => withArchiveAt(await openAt(address, logLine), archive, logLine)

const openAt = async (address: LogAddress, logLine: (line: string) => void): Promise<EmbeddedLog | KafkaLog> => {
  if (address.kind === 'kafka') {
    const partitions = await storedPartitions({ ...address, clientId: CLIENT_ID })
    return openKafkaLog({
      ...address,
      clientId: CLIENT_ID,
      schemas: schemaTexts(),
      partitions,
      anyPlacement: true,
      logLine,
    })
  }
  if (!hasEmbeddedLog(address.folder))
    throw new InstarError('data_unreadable', `${address.folder} holds no log.`, { folder: address.folder })
  return openEmbeddedLog({ folder: address.folder, readOnly: true })
}

/**
 * Opens a log for writing. An embedded log is created; a log on Kafka must be set up. Throws `partition_count_changed`
 * if the log has other partition counts than `partitions`, `data_in_use`, `not_set_up`.
 */
export const openDestination = async (
  address: LogAddress,
  partitions: Partial<Record<Topic, number>>,
  schemas: Readonly<Record<string, string>>,
  logLine: (line: string) => void,
): Promise<EventLog> => {
  try {
    if (address.kind === 'embedded') return await openEmbeddedLog({ folder: address.folder, schemas, partitions })
    // Throws `not_set_up` at once; opening the log waits for the topics.
    await storedPartitions({ ...address, clientId: CLIENT_ID })
    return await openKafkaLog({ ...address, clientId: CLIENT_ID, schemas, partitions, logLine })
  } catch (cause) {
    if (!(cause instanceof InstarError) || cause.code !== 'partition_count_changed') throw cause
    const { topic, stored, configured } = cause.details
    if (typeof stored !== 'number') throw cause
    throw new InstarError(
      'partition_count_changed',
      `The destination has ${stored} partitions of ${String(topic)}, the copy would have ${String(configured)}. To copy into it as it is: --partitions ${String(topic)}=${stored}.`,
      cause.details,
      { cause },
    )
  }
}
