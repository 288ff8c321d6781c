/** The stack that the tests of one run share: a Kafka node and a schema registry. Its addresses are in INSTAR_INT. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { killAll } from './stack/guarded.ts'
import { startKafka } from './stack/kafka.ts'
import { startDatabase, startRegistry } from './stack/registry.ts'

type Addresses = { brokers: string[]; registry: string; postgres: number }

export const addresses = (): Addresses => {
  const given = process.env['INSTAR_INT']
  if (!given) throw new Error('run these tests with `npm run test:int`')
  return JSON.parse(given) as Addresses
}

/** A folder for the data of the run, which is deleted when it is removed or this process ends in any way. */
export const temporaryFolder = async (): Promise<{ path: string; remove(): Promise<void> }> => {
  const path = await mkdtemp(join(tmpdir(), 'instar-int-'))
  // When this process is root, PostgreSQL runs as nobody and needs access; else its data would be elsewhere.
  await chmod(path, 0o711)
  const sweeper = spawn('/bin/sh', ['-c', SWEEP, 'sweep', path], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const swept = once(sweeper, 'exit')
  return {
    path,
    async remove() {
      sweeper.stdin.end()
      await swept
    },
  }
}

/** A process that is being killed may still write. */
const SWEEP = `while read -r line; do :; done
for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && exit; sleep 0.3; done`

export const startStack = async (): Promise<Addresses & { stop(): Promise<void> }> => {
  const folder = await temporaryFolder()
  const stop = async (): Promise<void> => {
    await killAll()
    await folder.remove()
  }
  try {
    const [kafka, { registry, database }] = await Promise.all([
      startKafka({ folder: join(folder.path, 'kafka') }),
      startDatabase(join(folder.path, 'postgres')).then(async (database) => ({
        database,
        registry: await startRegistry(join(folder.path, 'registry'), database),
      })),
    ])
    return { brokers: kafka.brokers, registry: registry.url, postgres: database.port, stop }
  } catch (cause) {
    await stop()
    throw cause
  }
}
