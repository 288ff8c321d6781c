/** The gateway as a process of its own, on Kafka. */
import { openModel, startServing } from '@instar/policy'
import { hostOf, requireEmbeddedEngine, runService } from '@instar/process'
import { randomBytes } from 'node:crypto'
import { createGateway, gatewayConfig } from './app.ts'

process.exitCode = await runService('gateway', hostOf(process.env), async ({ settings, log, snapshots, now, onFatal, signal }) => {
  requireEmbeddedEngine(settings)
  const config = gatewayConfig({ host: settings.host, port: settings.port, open: settings.open, keyFile: settings.keyFile })
  const [model, engine] = await Promise.all([openModel(settings.model), startServing({ model: settings.model, engine: 'auto', signal })])
  const gateway = createGateway({ log, snapshots, engine, model, now, random: randomBytes, onFatal }, config)
  const { url } = await gateway.start()
  return {
    line: `${url}/v1, ${model.name}, ${engine.capabilities().fingerprint}`,
    health: () => ({ status: 'ready', problem: null }),
    async stop() {
      await gateway.stop()
      await engine.close()
    },
  }
})
