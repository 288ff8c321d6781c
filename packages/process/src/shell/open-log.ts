/** The log that the environment names. */
import { InstarError, schemaTexts } from '@instar/events'
import { openEmbeddedLog, type EventLog, type LogTarget } from '@instar/log'
import { brokersOf, openKafkaLog, type KafkaLog } from '@instar/log/kafka/index'
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '../environment.ts'
import { kafkaSecurity, registryOf } from './access.ts'

const isKafka = ({ log }: Pick<Settings, 'log'>): boolean => log !== 'embedded'

export const logFolder = ({ data }: Pick<Settings, 'data'>): string => join(data, 'log')

/** What is known of the log before it is opened. */
export const logTarget = (settings: Pick<Settings, 'log' | 'data'>): LogTarget => {
  const folder = logFolder(settings)
  return isKafka(settings)
    ? { manyWriters: true, needsSetup: true, address: settings.log, exists: () => true }
    : {
        manyWriters: false,
        needsSetup: false,
        address: folder,
        exists: () => existsSync(join(folder, 'log.db')),
      }
}

export type LogSettings = Pick<Settings, 'log' | 'data' | 'partitions' | 'registry' | 'registryUser' | 'kafka'>

type OpenLogOptions = {
  /** What it calls itself at the brokers. */
  name: string
  /** The embedded log has one writer; others open it so. Kafka takes any number. */
  readOnly?: boolean
  say?: (line: string) => void
}

/** Throws `log_unavailable`, `not_set_up`, or what the embedded log says of its folder. */
export const openLog = async (settings: LogSettings, options: OpenLogOptions): Promise<EventLog> =>
  isKafka(settings)
    ? openKafka(settings, options)
    : openEmbeddedLog({
        folder: logFolder(settings),
        partitions: settings.partitions,
        ...(options.readOnly ? { readOnly: true } : { schemas: schemaTexts() }),
      })

export const openKafka = (settings: LogSettings, { name, say }: OpenLogOptions): Promise<KafkaLog> => {
  if (!isKafka(settings))
    throw new InstarError(
      'bad_request',
      `A ${name} of its own needs INSTAR_LOG=kafka://host:port: the embedded log has one writer, \`npx instar up\`.`,
      { field: 'INSTAR_LOG' },
    )
  const security = kafkaSecurity(settings)
  return openKafkaLog({
    brokers: brokersOf(settings.log),
    clientId: `${name}@${hostname()}.${process.pid}`,
    registry: registryOf(settings),
    schemas: schemaTexts(),
    partitions: settings.partitions,
    ...(security ? { security } : {}),
    ...(say ? { say } : {}),
  })
}
