/** Logs that a command names: `embedded[:FOLDER]` or `kafka://host:port,…`. */
import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { openEmbeddedLog, type EmbeddedLog, type EventLog } from '@instar/log'
import {
  brokersOf,
  openKafkaLog,
  storedPartitions,
  type KafkaLog,
  type RegistryAccess,
  type Security,
} from '@instar/log/kafka/index'
import { kafkaSecurity, logFolder, registryOf } from '@instar/process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { UsageError } from './command.ts'
import type { Config } from './config.ts'

const CLIENT = 'instar log copy'

export type Place =
  | { kind: 'embedded'; folder: string }
  | { kind: 'kafka'; brokers: string[]; registry: RegistryAccess; security?: Security }

/** FOLDER is what INSTAR_DATA would say; without it, INSTAR_DATA's. */
export const placeOf = (text: string, config: Config, cwd: string, registry: string | null): Place => {
  const embedded = /^embedded(?::(.+))?$/.exec(text)
  if (embedded)
    return {
      kind: 'embedded',
      folder: logFolder({ data: embedded[1] === undefined ? config.data : resolve(cwd, embedded[1]) }),
    }
  if (!text.startsWith('kafka://')) throw new UsageError(`${text} is no log: embedded:FOLDER or kafka://host:port,…`)
  const security = kafkaSecurity(config)
  return {
    kind: 'kafka',
    brokers: brokersOf(text),
    registry: registryOf({ ...config, log: text, registry }),
    ...(security ? { security } : {}),
  }
}

export const samePlace = (a: Place, b: Place): boolean =>
  a.kind === 'embedded'
    ? b.kind === 'embedded' && a.folder === b.folder
    : b.kind === 'kafka' && a.brokers.some((broker) => b.brokers.includes(broker))

/** With as many partitions as it has. */
export const openSource = async (place: Place, say: (line: string) => void): Promise<EmbeddedLog | KafkaLog> => {
  if (place.kind === 'kafka') {
    const partitions = await storedPartitions({ ...place, clientId: CLIENT })
    return openKafkaLog({ ...place, clientId: CLIENT, schemas: schemaTexts(), partitions, say })
  }
  if (!existsSync(join(place.folder, 'log.db')))
    throw new InstarError('data_unreadable', `There is no log in ${place.folder}.`, { folder: place.folder })
  return openEmbeddedLog({ folder: place.folder, readOnly: true })
}

/**
 * For writing; an embedded one is made, one on Kafka has to be set up. Throws `partition_count_changed` when it
 * has another number of partitions than `partitions` says, `data_in_use`, `not_set_up`.
 */
export const openDestination = async (
  place: Place,
  partitions: Partial<Record<Topic, number>>,
  schemas: Readonly<Record<string, string>>,
  say: (line: string) => void,
): Promise<EventLog> => {
  try {
    if (place.kind === 'embedded') return await openEmbeddedLog({ folder: place.folder, schemas, partitions })
    // Tells at once that nothing is set up, which the log itself would wait for.
    await storedPartitions({ ...place, clientId: CLIENT })
    return await openKafkaLog({ ...place, clientId: CLIENT, schemas, partitions, say })
  } catch (cause) {
    if (!(cause instanceof InstarError) || cause.code !== 'partition_count_changed') throw cause
    const { topic, stored, configured } = cause.details
    throw new InstarError(
      'partition_count_changed',
      `The destination has ${String(stored)} partitions of ${String(topic)}, the copy would have ${String(configured)}: --partitions ${String(topic)}=${String(stored)} copies into it as it is.`,
      cause.details,
      { cause },
    )
  }
}
