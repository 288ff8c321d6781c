/** The stack that the tests of one run share: a Kafka node and a schema registry. Its addresses are in INSTAR_INT. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { killAll } from './stack/guarded.ts'
import { startKafka } from './stack/kafka.ts'
import { startDatabase, startRegistry } from './stack/registry.ts'

export type Addresses = { brokers: string[]; registry: string; postgres: number }

export const addresses = (): Addresses => {
  const given = process.env['INSTAR_INT']
  if (!given) throw new Error('run these tests with `npm run test:int`')
  return JSON.parse(given) as Addresses
}

/** A folder for the run's data; `remove` it when all is stopped. */
export const temporaryFolder = async (): Promise<{ path: string; remove(): Promise<void> }> => {
  const path = await mkdtemp(join(tmpdir(), 'instar-int-'))
  return { path, remove: () => rm(path, { recursive: true, force: true }) }
}

export const startStack = async (): Promise<Addresses & { stop(): Promise<void> }> => {
  const folder = await temporaryFolder()
  const stop = async (): Promise<void> => {
    await killAll()
    await folder.remove()
  }
  try {
    const [kafka, { registry, database }] = await Promise.all([
      startKafka({ folder: join(folder.path, 'kafka') }),
      startDatabase(join(folder.path, 'postgres')).then(async (database) => ({ database, registry: await startRegistry(join(folder.path, 'registry'), database) })),
    ])
    return { brokers: kafka.brokers, registry: registry.url, postgres: database.port, stop }
  } catch (cause) {
    await stop()
    throw cause
  }
}
