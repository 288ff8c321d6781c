/** The projections as a separate process: from Kafka to the PostgreSQL server of DATABASE_URL. */
import { InstarError } from '@instar/events/errors'
import { hostOf, runService } from '@instar/process'
import { watchProjections } from './metrics.ts'
import { startPostgres } from './postgres/start.ts'
import { startProjections } from './run.ts'

process.exitCode = await runService(
  'projections',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal }) => {
    if (settings.database === null)
      throw new InstarError('bad_request', 'The projections require DATABASE_URL, the URL of a PostgreSQL server.', {
        field: 'DATABASE_URL',
      })
    const postgres = await startPostgres({
      folder: settings.data,
      url: settings.database,
      readerPassword: settings.databaseReaderPassword,
    })
    const projections = startProjections({ log, snapshots, connection: postgres.owner, logLine })
    watchProjections(metrics, log, projections, now)
    projections.done.catch((error: unknown) => onFatal(error as Error))
    await projections.caughtUp()
    return {
      line: postgres.psql,
      health: () => ({ status: 'ready', problem: null }),
      stop: () => projections.stop(),
    }
  },
)
