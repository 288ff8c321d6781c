import {
  readOnlyQuery,
  runningPostgres,
  startPostgres,
  startProjections,
  type ReaderLogin,
  type QueryRow,
} from '@instar/projections'
import { command, UsageError } from '../command.ts'
import type { Config } from '../config.ts'
import { hasLog, postgresFolder, withLog } from '../log-access.ts'
import { rowsTable } from '../table.ts'

/** A day. */
const MAX_TIMEOUT_MS = 24 * 3600 * 1000

export default command('sql', {
  usage: '"SELECT …" [--timeout SECONDS]',
  help: `
Runs one statement on the read model, in a READ ONLY transaction. The database is that of DATABASE_URL, else the embedded
one of the running pipeline. Without a running pipeline the embedded one is started for the statement and updated from
the log first. Tables: sessions, turns, scores, updates, versions, version_turns, head_moves, version_metrics.

  --timeout SECONDS  time limit of the statement (default 30, at most 86400)

--json: an array of rows`,
  options: { timeout: { type: 'string', default: '30' } },
  overrides: ['data'],
  positionals: [1, 1],
  async run({ config, positionals: [statement], values, print, err }) {
    // PostgreSQL counts whole milliseconds, and 0 is no limit.
    const timeoutMs = Math.ceil(1000 * Number(values.timeout))
    if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS))
      throw new UsageError(
        `--timeout ${values.timeout} is not a number of seconds above 0, at most ${MAX_TIMEOUT_MS / 1000}`,
      )
    const query = (connection: ReaderLogin): Promise<QueryRow[]> => readOnlyQuery(connection, statement!, { timeoutMs })
    const rows = await withDatabase(config, err, query)
    print(rows, () => rowsTable(rows))
  },
})

/** Connects to the database of the read model; starts the embedded one while `use` runs, if it does not run. */
const withDatabase = async <T>(
  config: Config,
  err: (text: string) => void,
  use: (reader: ReaderLogin) => Promise<T>,
): Promise<T> => {
  if (config.database !== null) {
    const external = await startPostgres({
      folder: postgresFolder(config),
      url: config.database,
      readerPassword: config.databaseReaderPassword,
    })
    return use(external.reader)
  }
  const running = hasLog(config) ? await runningPostgres(postgresFolder(config)) : undefined
  if (running) return use(running.reader)
  return withLog(config, async (log) => {
    const logLine = (line: string): void => err(`${line}\n`)
    const postgres = await startPostgres({
      folder: postgresFolder(config),
      logLine,
      ...(config.postgresPrograms === null ? {} : { bin: config.postgresPrograms }),
    })
    try {
      const projections = startProjections({ log, connection: postgres.owner, logLine })
      try {
        await projections.caughtUp()
      } finally {
        await projections.stop()
      }
      return await use(postgres.reader)
    } finally {
      await postgres.stop()
    }
  })
}
