/**
 * A gateway with the real serving engine in its own process, `child.ts LOG_FOLDER MODEL_FOLDER`; publishes versions on
 * request, as a publisher would.
 */
import { randomBytes } from 'node:crypto'
import { schemaTexts } from '@instar/events'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openEmbeddedLog } from '@instar/log'
import { openModel, startServing } from '@instar/policy'
import { ADMIN_TOKEN, Publisher } from '../../kit/gateway.ts'
import { randomAdapter } from '../../kit/random-model.ts'

/** `parent`: the parent of the next version. */
export type Order = { publish: { parent: number } }
export type Told = { url: string } | { published: string }

const [, , folder, modelFolder] = process.argv as [string, string, string, string]
const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
const publisher = new Publisher(log)
await publisher.start()
const model = await openModel(modelFolder)
const engine = await startServing({ model: modelFolder, rows: 100, slots: 4, threads: 1 })
const gateway = createGateway(
  { log, engine, model, now: Date.now, random: (bytes) => randomBytes(bytes) },
  gatewayConfig({ port: 0, adminToken: ADMIN_TOKEN }),
)
const { url } = await gateway.start()
const tell = (told: Told): void => {
  process.send?.(told)
}

let seed = 0
process.on('message', ({ publish }: Order) => {
  void (async () => {
    seed += 1
    await publisher.readTip()
    tell({ published: await publisher.publish(publish.parent, { weights: randomAdapter(seed).weights }) })
  })()
})
process.once('disconnect', () => {
  void (async () => {
    await gateway.stop()
    await engine.close()
    await log.close()
  })()
})
tell({ url })
