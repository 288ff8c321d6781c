/** Opens the configured log: embedded, or on Kafka. */
import { InstarError, schemaTexts } from '@instar/events'
import { hasEmbeddedLog, openEmbeddedLog, type EventLog, type LogTarget } from '@instar/log'
import type { KafkaLog } from '@instar/log/kafka/index'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '../settings.ts'
import { kafkaSecurity, registryOf } from './access.ts'
import { withArchiveAt } from './open-archive.ts'

const isKafka = ({ log }: Pick<Settings, 'log'>): boolean => log !== 'embedded'

export const logFolder = ({ data }: Pick<Settings, 'data'>): string => join(data, 'log')

/** Properties of the configured log that are known before it is opened. */
export const logTarget = (settings: Pick<Settings, 'log' | 'data'>): LogTarget => {
  const folder = logFolder(settings)
  return isKafka(settings)
    ? { manyWriters: true, needsSetup: true, address: settings.log, exists: () => true }
    : {
        manyWriters: false,
        needsSetup: false,
        address: folder,
        exists: () => hasEmbeddedLog(folder),
      }
}

/** Of the log without its folder. `archive`: of what was cut from it. */
export type LogAt = Pick<Settings, 'log' | 'partitions' | 'registry' | 'registryUser' | 'kafka' | 'archive'>
export type LogSettings = LogAt & Pick<Settings, 'data'>

type OpenLogOptions = {
  /** The client id on Kafka, without host and process id. */
  name: string
  /** Opens an embedded log, which has one writer, for reading. No effect on Kafka. */
  readOnly?: boolean
  /** Receives lines for the process's log. */
  logLine?: (line: string) => void
}

/** Throws `log_unavailable`, `not_set_up`, and the errors of `openEmbeddedLog`. */
export const openLog = async (settings: LogSettings, options: OpenLogOptions): Promise<EventLog> =>
  isKafka(settings)
    ? openKafka(settings, options)
    : withArchiveAt(
        await openEmbeddedLog({
          folder: logFolder(settings),
          partitions: settings.partitions,
          ...(options.readOnly ? { readOnly: true } : { schemas: schemaTexts() }),
          ...(options.logLine ? { logLine: options.logLine } : {}),
        }),
        settings.archive,
        options.logLine,
      )

/**
 * Throws `bad_request` unless the configured log is on Kafka; otherwise like `openLog`. The client is loaded here, since
 * its 280 modules cost each process 0.12 to 0.2 s of CPU time.
 */
export const openKafka = async (settings: LogSettings, { name, logLine }: OpenLogOptions): Promise<KafkaLog> => {
  if (!isKafka(settings))
    throw new InstarError(
      'bad_request',
      `A separate ${name} process requires INSTAR_LOG=kafka://host:port. The embedded log has one writer: \`npx instar up\` runs all services in one process.`,
      { field: 'INSTAR_LOG' },
    )
  const security = kafkaSecurity(settings)
  const { brokersOf, openKafkaLog } = await import('@instar/log/kafka/index')
  const log = await openKafkaLog({
    brokers: brokersOf(settings.log),
    clientId: `${name}@${hostname()}.${process.pid}`,
    registry: registryOf(settings),
    schemas: schemaTexts(),
    partitions: settings.partitions,
    ...(security ? { security } : {}),
    ...(logLine ? { logLine } : {}),
  })
  return withArchiveAt(log, settings.archive, logLine)
}
