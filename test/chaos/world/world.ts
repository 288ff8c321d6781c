/** Kafka, the registry, PostgreSQL and the services, one process each; all of them end with this process. */
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { schemaTexts } from '@instar/events'
import { openKafkaLog, type KafkaLog } from '@instar/log/kafka/index'
import { killAll } from '../../kit/stack/guarded.ts'
import { startKafka, type KafkaCluster } from '../../kit/stack/kafka.ts'
import { startProxy, type Proxy } from '../../kit/stack/proxy.ts'
import { freePort } from '../../kit/stack/ready.ts'
import { startDatabase, startRegistry, type Database, type Registry } from '../../kit/stack/registry.ts'
import { temporaryFolder } from '../../kit/stack.ts'
import { ROOT } from '../../../tools/tree.ts'
import { untilNothingLeft } from './orphans.ts'
import { startService, type Kind, type Service } from './service.ts'

type WorldOptions = {
  /** Three: every record has three copies and needs two acknowledgements. */
  nodes?: 1 | 3
  /** The services reach the broker through a proxy. */
  proxied?: boolean
  services?: Partial<Record<Kind, number>>
  env?: Record<string, string>
  /** The time that each service has until it is ready, milliseconds. */
  readyMs?: number
}

export type World = {
  folder: string
  kafka: KafkaCluster
  registry: Registry
  database: Database
  /** With `proxied`: drops and delays messages between the services and the brokers. */
  proxy: Proxy | null
  /** The address as the services have it. */
  env: Record<string, string>
  databaseUrl: string
  /** Reads and writes without the proxy. */
  log: KafkaLog
  services: Service[]
  of(kind: Kind): Service[]
  /** Starts one more service and waits until it is ready. `root`: the folder of its build; default: this one. */
  add(kind: Kind, env?: Record<string, string>, root?: string): Promise<Service>
  /** A CLI command on this stack; throws if it fails. */
  instar(...args: string[]): Promise<string>
  /** The same with the build in that folder. */
  instarOf(root: string, ...args: string[]): Promise<string>
  ready(): Promise<void>
  /** Sends SIGTERM to every service; their exit codes by name. */
  stopServices(): Promise<Record<string, number>>
  end(): Promise<void>
}

const DEFAULTS: Record<Kind, number> = { gateway: 2, scorer: 2, trainer: 1, publisher: 1, projections: 1 }
/** Session timeout in seconds, so short that open turns are closed within a test. */
const IDLE_S = '3'

export const startWorld = async ({
  nodes = 1,
  proxied = false,
  services: counts = {},
  env: more = {},
  readyMs,
}: WorldOptions = {}): Promise<World> => {
  const folder = await temporaryFolder()
  const proxy = proxied ? await startProxy() : null
  const services: Service[] = []
  const numbers = new Map<Kind, number>()
  let log: KafkaLog | null = null
  const end = async (): Promise<void> => {
    await Promise.all(services.map((service) => service.end()))
    await log?.close()
    await killAll()
    await proxy?.close()
    await folder.remove()
    await untilNothingLeft(folder.path)
  }
  try {
    const [kafka, { registry, database }] = await Promise.all([
      startKafka({ folder: join(folder.path, 'kafka'), nodes, ...(proxy ? { advertised: proxy.port } : {}) }),
      startDatabase(join(folder.path, 'postgres')).then(async (database) => ({
        database,
        registry: await startRegistry(join(folder.path, 'registry'), database),
      })),
    ])
    if (proxy) proxy.upstream = kafka.nodes[0]!.behindProxy!
    const databaseUrl = `postgresql://postgres@127.0.0.1:${database.port}/instar`
    const env: Record<string, string> = {
      INSTAR_LOG: `kafka://${proxy ? `127.0.0.1:${proxy.port}` : kafka.brokers.join(',')}`,
      INSTAR_REGISTRY: registry.url,
      DATABASE_URL: databaseUrl,
      INSTAR_REPLICATION: String(nodes),
      INSTAR_SESSION_IDLE: IDLE_S,
      INSTAR_HOST: '127.0.0.1',
      INSTAR_OPEN: '',
      INSTAR_ENGINE: '',
      INSTAR_MODEL: '',
      INSTAR_JUDGE_URL: '',
      INSTAR_HEALTH_PORT: '',
      INSTAR_PORT: '',
      NODE_ENV: 'production',
      NODE_OPTIONS: '',
      ...more,
    }
    const instarOf = async (root: string, ...args: string[]): Promise<string> => {
      const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'cli/src/main.ts'), ...args], {
        cwd: folder.path,
        env: { ...process.env, ...env },
        timeout: 120_000,
        maxBuffer: 16 << 20,
      })
      return stdout
    }
    const instar = (...args: string[]): Promise<string> => instarOf(ROOT, ...args)
    await instar('setup')
    log = await openKafkaLog({
      brokers: kafka.brokers,
      clientId: 'test',
      registry: registry.url,
      schemas: schemaTexts(),
    })

    const launch = async (kind: Kind, own: Record<string, string> = {}, root = ROOT): Promise<Service> => {
      const number = (numbers.get(kind) ?? 0) + 1
      numbers.set(kind, number)
      const home = join(folder.path, 'services')
      await mkdir(home, { recursive: true })
      const service = startService({
        kind,
        name: `${kind}-${number}`,
        folder: home,
        port: await freePort(),
        env: { ...env, ...own },
        root,
        ...(readyMs === undefined ? {} : { readyMs }),
      })
      services.push(service)
      return service
    }
    const world: World = {
      folder: folder.path,
      kafka,
      registry,
      database,
      proxy,
      env,
      databaseUrl,
      log,
      services,
      instar,
      instarOf,
      end,
      of: (kind) => services.filter((service) => service.kind === kind),
      async add(kind, own, root) {
        const service = await launch(kind, own, root)
        await service.ready()
        return service
      },
      async ready() {
        await Promise.all(services.map((service) => service.ready()))
      },
      async stopServices() {
        const statuses = await Promise.all(
          services.map(async (service) => [service.name, await service.stop()] as const),
        )
        return Object.fromEntries(statuses)
      },
    }
    for (const [kind, count] of Object.entries({ ...DEFAULTS, ...counts }) as [Kind, number][]) {
      for (let i = 0; i < count; i++) await launch(kind)
    }
    await world.ready()
    return world
  } catch (cause) {
    await end()
    throw cause
  }
}
