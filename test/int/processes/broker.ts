/** Starts a broker, prints its process id and folder, and waits to be killed. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startKafka } from '../../kit/stack/kafka.ts'
import { temporaryFolder } from '../../kit/stack.ts'

const { path } = await temporaryFolder()
await startKafka({ folder: join(path, 'kafka') })
process.stdout.write(
  `${JSON.stringify({ pid: Number(readFileSync(join(path, 'kafka/node-1/kafka.pid'), 'utf8')), folder: path })}\n`,
)
setInterval(() => undefined, 60_000)
