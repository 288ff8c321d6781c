/**
 * The gateway in a process without the other services: `instar.ts ENGINE FOLDER`. The embedded log is in FOLDER; its
 * thread flushes every turn to disk before the answer ends. Snapshots and metrics as in `instar up`.
 */
import { join } from 'node:path'
import { schemaTexts } from '@instar/events'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openRemote } from '../../services/gateway/src/generate/open-remote.ts'
import { randomBytes } from '../../services/gateway/src/generate/random.ts'
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { createMetrics, measuredLog } from '@instar/process'

const [, , engine = '', folder = ''] = process.argv
const logLine = (line: string): void => {
  console.error(line)
}
const onFatal = (error: Error): void => {
  console.error(error)
  process.exit(1)
}
const metrics = createMetrics()
const log = measuredLog(await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() }), metrics)
const remote = await openRemote(
  { engine, engineKey: null, engineModel: null, adapters: join(folder, 'adapters'), model: '', modelNamed: false },
  { logLine },
)
const gateway = createGateway(
  {
    log,
    snapshots: openSnapshots(join(folder, 'snapshots'), { logLine }),
    metrics,
    engine: remote.engine,
    model: remote.model,
    now: () => Date.now(),
    random: randomBytes,
    onFatal,
  },
  gatewayConfig({ port: 0 }),
)
const { url } = await gateway.start()
process.send!(Number(new URL(url).port))
process.on('disconnect', () => {
  void gateway
    .stop()
    .then(() => remote.engine.close())
    .then(() => log.close())
    .then(() => process.exit(0))
})
