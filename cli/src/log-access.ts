/** Opens the log of INSTAR_LOG, which another process may be writing to. */
import { InstarError } from '@instar/events'
import type { EventLog } from '@instar/log'
import { logTarget, openLog } from '@instar/process'
import { join } from 'node:path'
import type { Config } from './config.ts'

/** The name of the policy that the services train and serve. */
export const POLICY = 'policy'

export const postgresFolder = (config: Pick<Config, 'data'>): string => join(config.data, 'postgres')

/** False before the first start, when the embedded log has no file yet. */
export const hasLog = (config: Pick<Config, 'data' | 'log'>): boolean => logTarget(config).exists()

const open = (config: Config, readOnly: boolean): Promise<EventLog> => {
  if (!hasLog(config))
    throw new InstarError(
      'data_unreadable',
      `${config.data} holds no log. Start the pipeline with \`npx instar up\`, or set INSTAR_DATA to the folder that holds it.`,
      { folder: config.data },
    )
  return openLog(config, { name: 'instar', readOnly })
}

/** Opens the log for writing. Throws `data_unreadable`; `data_in_use` while a pipeline writes to the embedded log. */
export const openWritable = (config: Config): Promise<EventLog> => open(config, false)

/**
 * Opens the log for reading while `use` runs. `stop` ends reading with `aborted`. Throws `data_unreadable`, also for a file
 * that is damaged.
 */
export const withLog = async <T>(
  config: Config,
  use: (log: EventLog) => Promise<T>,
  stop?: AbortSignal,
): Promise<T> => {
  const log = await open(config, true)
  try {
    return await use(stop ? endedBy(log, stop) : log)
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_SQLITE_ERROR') throw cause
    throw new InstarError(
      'data_unreadable',
      `The log in ${config.data} cannot be read: ${(cause as Error).message}. Restore it from a copy.`,
      { folder: config.data },
      { cause },
    )
  } finally {
    await log.close()
  }
}

/** The log, whose readings end with `aborted` before the next records once `stop` is aborted. */
export const endedBy = (log: EventLog, stop: AbortSignal): EventLog => {
  const read: EventLog['read'] = async function* (topic, options) {
    throwIfStopped(stop)
    for await (const records of log.read(topic, options)) {
      yield records
      throwIfStopped(stop)
    }
  }
  return new Proxy(log, {
    get(target, name) {
      if (name === 'read') return read
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** Throws `aborted`. */
export const throwIfStopped = (stop: AbortSignal): void => {
  if (stop.aborted) throw new InstarError('aborted', 'The command was stopped before it reached the end.')
}
