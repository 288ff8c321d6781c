/** The parts of a deployment on Kafka. Each part is inspected once, at first use; every check shares the result. */
import { schemaTexts } from '@instar/events'
import {
  brokersOf,
  inspectCluster,
  inspectRegistry,
  openKafkaLog,
  storedSchemas,
  type ClusterState,
  type InspectOptions,
  type KafkaLog,
  type RegistryState,
} from '@instar/log/kafka/index'
import { kafkaSecurity, registryOf } from '@instar/process'
import { inspectDatabase, startPostgres, type DatabaseFound } from '@instar/projections'
import { lookup } from 'node:dns/promises'
import { requestAdmin } from '../admin-client.ts'
import { gatewayUrl, type Config } from '../config.ts'
import type { ClockReading } from './clocks.ts'
import type { Unreadable } from './records.ts'

const BROKER_TIMEOUT_MS = 10_000
const GATEWAY_TIMEOUT_MS = 5000
const CLIENT_ID = 'instar doctor'

/** The fields of /admin/status that the checks use. */
type GatewayStatus = {
  status: string
  problem: { message?: string } | null
  head: number
  serving: number | null
  frozen: boolean
  log: { pending: number; unreadable: number }
}
/** Either `status` or `error` is null. */
export type GatewayFound = {
  address: string
  status: GatewayStatus | null
  error: Error | null
  clock: ClockReading | null
}

export type Deployment = {
  brokers: string[]
  /** Options of a connection to the brokers. */
  access(): Promise<InspectOptions>
  cluster(): Promise<ClusterState>
  registry(): Promise<RegistryState>
  /** Throws if topics or schemas are missing. */
  log(): Promise<KafkaLog>
  /** Null where DATABASE_URL is not set. */
  database(): Promise<DatabaseFound | null>
  /** The gateways behind the name INSTAR_HOST. */
  gateways(): Promise<GatewayFound[]>
  /** Records that cannot be decoded; filled by the check that reads the log. */
  unreadable: Unreadable[]
  close(): Promise<void>
}

const once = <T>(work: () => Promise<T>): (() => Promise<T>) => {
  let result: Promise<T> | undefined
  return () => (result ??= work())
}

export const createDeployment = (config: Config): Deployment => {
  const brokers = brokersOf(config.log)
  const access = once(async () => {
    const security = kafkaSecurity(config)
    return { brokers, clientId: CLIENT_ID, retryMs: BROKER_TIMEOUT_MS, ...(security ? { security } : {}) }
  })
  const cluster = once(async () => inspectCluster(await access()))
  // The check of the log reports why its schema ids cannot be read.
  const schemaIds = once(async () => storedSchemas(await access()).catch(() => []))
  const registry = once(async () => inspectRegistry(registryOf(config), schemaTexts(), Date.now, await schemaIds()))
  let openedLog: KafkaLog | undefined
  const log = once(
    async () =>
      (openedLog = await openKafkaLog({
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
    const addresses = await lookup(host, { all: true }).catch(() => [])
    return Promise.all(addresses.map(({ address }) => inspectGateway({ ...config, host: address })))
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
    close: async () => openedLog?.close(),
  }
}

const inspectGateway = async (gateway: Pick<Config, 'host' | 'port' | 'key'>): Promise<GatewayFound> => {
  const address = gatewayUrl(gateway)
  try {
    const status = await requestAdmin<GatewayStatus>(gateway, '/admin/status', undefined, {
      timeoutMs: GATEWAY_TIMEOUT_MS,
    })
    return { address, status, error: null, clock: await readClock(address) }
  } catch (error) {
    return { address, status: null, error: error as Error, clock: null }
  }
}

/** The `date` header, which has a resolution of one second. Null where there is none. */
const readClock = async (address: string): Promise<ClockReading | null> => {
  const before = Date.now()
  const signal = AbortSignal.timeout(GATEWAY_TIMEOUT_MS)
  const response = await fetch(`${address}/health/live`, { signal }).catch(() => null)
  const after = Date.now()
  await response?.body?.cancel()
  const date = response?.headers.get('date')
  return date
    ? { source: `the gateway at ${address}`, before, remote: Date.parse(date), after, resolution: 1000 }
    : null
}
