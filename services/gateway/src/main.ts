/** The gateway as a process of its own, on Kafka. */
import { openModel, startServing } from '@instar/policy'
import { hostOf, runService } from '@instar/process'
import { readerOf, readerPasswordOf } from '@instar/projections/postgres/reader'
import { openReadModel } from '@instar/projections/read-model'
import { createGateway, gatewayConfig } from './app.ts'
import { isRemote, openRemote } from './generate/open-remote.ts'
import { randomBytes } from './generate/random.ts'

process.exitCode = await runService(
  'gateway',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, onFatal, logLine, signal }) => {
    const config = gatewayConfig({
      host: settings.host,
      port: settings.port,
      open: settings.open,
      keyFile: settings.keyFile,
      adminToken: settings.adminToken,
      adminTokenFile: settings.adminTokenFile,
      origins: settings.origins,
      ...settings.limits,
    })
    const embedded = async () => {
      const [model, engine] = await Promise.all([
        openModel(settings.model),
        startServing({ model: settings.model, engine: 'auto', signal }),
      ])
      return { model, engine, base: model, line: engine.capabilities().fingerprint }
    }
    const { model, engine, line, base } = isRemote(settings)
      ? { ...(await openRemote(settings, { logLine, signal })), base: null }
      : await embedded()
    const { database, databaseReaderPassword } = settings
    const readModel =
      database === null
        ? null
        : openReadModel(readerOf(database, readerPasswordOf(database, databaseReaderPassword)), config.policy, () =>
            performance.now(),
          )
    const gateway = createGateway(
      {
        log,
        snapshots,
        metrics,
        data: settings.data,
        engine,
        model,
        ...(base ? { base } : {}),
        ...(readModel ? { readModel } : {}),
        now,
        random: randomBytes,
        onFatal,
      },
      config,
    )
    const { url } = await gateway.start().catch(async (error: unknown) => {
      await engine.close()
      throw error
    })
    return {
      line: `${url}/v1, ${model.name}, ${line}`,
      health: () => ({ status: 'ready', problem: null }),
      async stop() {
        await gateway.stop()
        await readModel?.close()
        await engine.close()
      },
    }
  },
)
