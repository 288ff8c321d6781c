/**
 * The gateway with its dashboard in a process of its own: `gateway.ts ENGINE FOLDER READER`. The embedded log is in FOLDER;
 * READER is the login of the read model as JSON.
 */
import { join } from 'node:path'
import { schemaTexts } from '@instar/events'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { createMetrics, measuredLog } from '@instar/process'
import type { ReaderLogin } from '@instar/projections/postgres/reader'
import { openReadModel } from '@instar/projections/read-model'
import { openRemote } from '../../services/gateway/src/generate/open-remote.ts'
import { randomBytes } from '../../services/gateway/src/generate/random.ts'

const [, , engine = '', folder = '', reader = ''] = process.argv
const logLine = (line: string): void => {
  console.error(line)
}
const metrics = createMetrics()
const log = measuredLog(await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() }), metrics)
const remote = await openRemote(
  { engine, engineKey: null, engineModel: null, adapters: join(folder, 'adapters'), model: '', modelNamed: false },
  { logLine },
)
const readModel = openReadModel(JSON.parse(reader) as ReaderLogin, 'policy', () => performance.now())
const gateway = createGateway(
  {
    log,
    snapshots: openSnapshots(join(folder, 'snapshots'), { logLine }),
    metrics,
    engine: remote.engine,
    model: remote.model,
    readModel,
    now: () => Date.now(),
    random: randomBytes,
    onFatal: (error) => {
      console.error(error)
      process.exit(1)
    },
  },
  gatewayConfig({ port: 0 }),
)
const { url } = await gateway.start()
process.send!(Number(new URL(url).port))
process.on('disconnect', () => {
  void gateway
    .stop()
    .then(() => readModel.close())
    .then(() => remote.engine.close())
    .then(() => log.close())
    .then(() => process.exit(0))
})
