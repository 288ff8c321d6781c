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
import { hasLog, postgresFolder, withLog } from '../lines.ts'
import { rowsTable } from '../table.ts'

export default command('sql', {
  usage: '"SELECT …"',
  help: `
One statement in a READ ONLY transaction on the read model. The database is that of DATABASE_URL, else the
embedded one of the running pipeline; when that does not run, it is started for the question and brought up to
the log first. Tables: sessions, turns, scores, updates, versions, version_turns, head_moves, version_metrics.

  --timeout SECONDS  how long the statement may take (default 30)

--json: an array of rows`,
  options: { timeout: { type: 'string', default: '30' } },
  overrides: ['data'],
  positionals: [1, 1],
  async run({ config, positionals, values, answer, err }) {
    const timeoutMs = 1000 * Number(values.timeout)
    if (!(timeoutMs > 0)) throw new UsageError(`--timeout ${values.timeout} is not a number of seconds`)
    const ask = (connection: ReaderLogin): Promise<QueryRow[]> =>
      readOnlyQuery(connection, positionals[0]!, { timeoutMs })
    const rows = await withDatabase(config, err, ask)
    answer(rows, () => rowsTable(rows))
  },
})

const withDatabase = async <T>(
  config: Config,
  err: (text: string) => void,
  use: (reader: ReaderLogin) => Promise<T>,
): Promise<T> => {
  if (config.database !== null) {
    const own = await startPostgres({
      folder: postgresFolder(config),
      url: config.database,
      readerPassword: config.databaseReaderPassword,
    })
    return use(own.reader)
  }
  const running = hasLog(config) ? await runningPostgres(postgresFolder(config)) : undefined
  if (running) return use(running.reader)
  return withLog(config, async (log) => {
    const say = (line: string): void => err(`${line}\n`)
    const postgres = await startPostgres({
      folder: postgresFolder(config),
      say,
      ...(config.postgresPrograms === null ? {} : { bin: config.postgresPrograms }),
    })
    try {
      const projections = startProjections({ log, connection: postgres.owner, say })
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
