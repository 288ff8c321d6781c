/** What the looks at a log on Kafka share: each part is asked once, and nobody waits twice for one that is away. */
import { schemaTexts } from '@instar/events'
import {
  brokersOf,
  inspectCluster,
  inspectRegistry,
  openKafkaLog,
  storedSchemas,
  type ClusterFound,
  type InspectOptions,
  type KafkaLog,
  type RegistryFound,
} from '@instar/log/kafka/index'
import { kafkaSecurity, registryOf } from '@instar/process'
import { inspectDatabase, startPostgres, type DatabaseFound } from '@instar/projections'
import { lookup } from 'node:dns/promises'
import { gatewayUrl, type Config } from '../config.ts'
import { ask } from '../gateway.ts'
import type { Told } from './clocks.ts'
import type { Unreadable } from './records.ts'

const PATIENCE = 10_000
const CLIENT = 'instar doctor'

type GatewayStatus = {
  status: string
  problem: { message?: string } | null
  head: number
  serving: number | null
  frozen: boolean
  log: { pending: number; unreadable: number }
}
export type GatewayFound = { address: string; status: GatewayStatus | null; fault: Error | null; clock: Told | null }

export type Stack = {
  brokers: string[]
  /** How the brokers are reached. */
  access(): Promise<InspectOptions>
  cluster(): Promise<ClusterFound>
  registry(): Promise<RegistryFound>
  /** Throws when its topics or its schemas are not there. */
  log(): Promise<KafkaLog>
  /** Null where DATABASE_URL is not set. */
  database(): Promise<DatabaseFound | null>
  gateways(): Promise<GatewayFound[]>
  /** What `log` found that nobody can read; filled by the look that reads it. */
  unreadable: Unreadable[]
  close(): Promise<void>
}

const once = <T>(work: () => Promise<T>): (() => Promise<T>) => {
  let begun: Promise<T> | undefined
  return () => (begun ??= work())
}

export const stackOf = (config: Config): Stack => {
  const brokers = brokersOf(config.log)
  const access = once(async () => {
    const security = kafkaSecurity(config)
    return { brokers, clientId: CLIENT, patience: PATIENCE, ...(security ? { security } : {}) }
  })
  const cluster = once(async () => inspectCluster(await access()))
  // Where the log says nothing of numbers, its own look tells why.
  const rows = once(async () => storedSchemas(await access()).catch(() => []))
  const registry = once(async () => inspectRegistry(registryOf(config), schemaTexts(), Date.now, await rows()))
  let opened: KafkaLog | undefined
  const log = once(
    async () =>
      (opened = await openKafkaLog({
        ...(await access()),
        registry: registryOf(config),
        schemas: schemaTexts(),
        partitions: config.partitions,
      })),
  )
  const database = once(async () =>
    config.database === null
      ? null
      : inspectDatabase(
          (
            await startPostgres({
              folder: config.data,
              url: config.database,
              readerPassword: config.databaseReaderPassword,
            })
          ).reader,
          Date.now,
        ),
  )
  const gateways = once(async () => {
    const host = new URL(gatewayUrl(config)).hostname.replace(/^\[|\]$/g, '')
    const places = await lookup(host, { all: true }).catch(() => [])
    return Promise.all(places.map(({ address }) => gatewayAt({ ...config, host: address })))
  })
  return {
    brokers,
    access,
    cluster,
    registry,
    log,
    database,
    gateways,
    unreadable: [],
    close: async () => opened?.close(),
  }
}

const gatewayAt = async (place: Pick<Config, 'host' | 'port' | 'key'>): Promise<GatewayFound> => {
  const address = gatewayUrl(place)
  try {
    const status = await ask<GatewayStatus>(place, '/admin/status', undefined, { timeoutMs: 5000 })
    return { address, status, fault: null, clock: await clockOf(address) }
  } catch (error) {
    return { address, status: null, fault: error as Error, clock: null }
  }
}

/** HTTP tells the time to the second. */
const clockOf = async (address: string): Promise<Told | null> => {
  const before = Date.now()
  const response = await fetch(`${address}/health/live`, { signal: AbortSignal.timeout(5000) }).catch(() => null)
  const after = Date.now()
  await response?.body?.cancel()
  const date = response?.headers.get('date')
  return date ? { who: `the gateway at ${address}`, before, theirs: Date.parse(date), after, resolution: 1000 } : null
}
