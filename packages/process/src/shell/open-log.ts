/** The log that the environment names. */
import { InstarError, schemaTexts } from '@instar/events'
import { openEmbeddedLog, type EventLog } from '@instar/log'
import { brokersOf, openKafkaLog, type KafkaLog } from '@instar/log/kafka/index'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '../environment.ts'

export const isKafka = ({ log }: Pick<Settings, 'log'>): boolean => log !== 'embedded'

export const logFolder = ({ data }: Pick<Settings, 'data'>): string => join(data, 'log')

/** Where schemas are: Kafka's records name theirs by a number that only the registry can tell. */
export const registryOf = ({ registry, log }: Pick<Settings, 'registry' | 'log'>): string => {
  if (registry === null) throw new InstarError('bad_request', `INSTAR_LOG=${log} needs INSTAR_REGISTRY: the address of a Confluent-compatible schema registry.`, { field: 'INSTAR_REGISTRY' })
  return registry
}

export type LogSettings = Pick<Settings, 'log' | 'data' | 'registry' | 'partitions'>

export type OpenLogOptions = {
  /** What it calls itself at the brokers. */
  name: string
  /** The embedded log has one writer; others open it so. Kafka takes any number. */
  readOnly?: boolean
  say?: (line: string) => void
}

/** Throws `log_unavailable`, `not_set_up`, or what the embedded log says of its folder. */
export const openLog = async (settings: LogSettings, options: OpenLogOptions): Promise<EventLog> =>
  isKafka(settings) ? openKafka(settings, options) : openEmbeddedLog({ folder: logFolder(settings), partitions: settings.partitions, ...(options.readOnly ? { readOnly: true } : { schemas: schemaTexts() }) })

export const openKafka = (settings: LogSettings, { name, say }: OpenLogOptions): Promise<KafkaLog> => {
  if (!isKafka(settings)) throw new InstarError('bad_request', `A ${name} of its own needs INSTAR_LOG=kafka://host:port: the embedded log has one writer, \`npm start\`.`, { field: 'INSTAR_LOG' })
  return openKafkaLog({ brokers: brokersOf(settings.log), clientId: `${name}@${hostname()}.${process.pid}`, registry: registryOf(settings), schemas: schemaTexts(), partitions: settings.partitions, ...(say ? { say } : {}) })
}
