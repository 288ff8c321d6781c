/** A gateway with the real engine on the shipped model. */
import { randomBytes } from 'node:crypto'
import { createGateway, gatewayConfig, type GatewayPorts, type GatewaySettings } from '@instar/gateway'
import { openMemoryLog, type EventLog } from '@instar/log'
import { openModel, startServing } from '@instar/policy'

const MODEL = 'models/tiny'

/** `url`: without /v1. */
export type Tiny = { url: string; log: EventLog; stop(): Promise<void> }

export const startTiny = async (settings: GatewaySettings = {}, ports: Partial<GatewayPorts> = {}): Promise<Tiny> => {
  const log = openMemoryLog()
  const model = await openModel(MODEL)
  const engine = await startServing({ model: MODEL, rows: 8, slots: 2, threads: 1 })
  const gateway = createGateway(
    { log, engine, model, now: Date.now, random: (bytes) => randomBytes(bytes), ...ports },
    gatewayConfig({ port: 0, logLevel: 'silent', ...settings }),
  )
  const { url } = await gateway.start()
  return {
    url,
    log,
    async stop() {
      await gateway.stop()
      await engine.close()
    },
  }
}
