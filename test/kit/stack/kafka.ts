/** Apache Kafka as child processes on loopback: one node or three, each broker and controller. */
import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { guarded, type Guarded } from './guarded.ts'
import { kafkaJars, kafkaJava } from './installed.ts'
import { brokerAnswers, freePort, untilReady } from './ready.ts'

const run = promisify(execFile)

export type Node = {
  readonly id: number
  /** The direct address for clients. */
  readonly port: number
  /** A second listener, which tells clients the `advertised` port. */
  readonly behindProxy?: number
  /** The process id of the broker. */
  pid(): number
  /** Resolves when it has ended. */
  kill(): Promise<void>
  signal(signal: NodeJS.Signals): void
  /** Starts it again on its data; resolves when it answers. */
  start(): Promise<void>
  said(): string
}

export type KafkaCluster = { brokers: string[]; nodes: Node[]; stop(): Promise<void> }

type KafkaStartOptions = {
  folder: string
  nodes?: 1 | 3
  /** For one node: the port of a proxy in front of its second listener. */
  advertised?: number
  /** A listener with TLS, client certificates and the user `instar`. One node. */
  secure?: SecureListener
  /** Default: settings for a fast start with little memory. */
  jvm?: readonly string[]
}

/** PEM files: the authority, and certificate with key of the broker (`localhost`) and of its clients. */
type SecureListener = { port: number; ca: string; broker: string; password: string }

const CLUSTER_ID = 'aW5zdGFyLWludC10ZXN0cw'
const JVM = ['-Xms96m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
/** For benches: the server compiler. */
export const FULL_JVM = ['-Xms512m', '-Xmx512m', '-XX:+UseG1GC']
const LOGGING = `status=error
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1}: %m%n
`

const secureSettings = ({ ca, broker, password }: SecureListener): string[] => {
  const own = 'listener.name.secure'
  const security = 'org.apache.kafka.common.security'
  return [
    `${own}.ssl.keystore.type=PEM`,
    `${own}.ssl.keystore.location=${broker}`,
    `${own}.ssl.truststore.type=PEM`,
    `${own}.ssl.truststore.location=${ca}`,
    `${own}.ssl.client.auth=required`,
    `${own}.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN`,
    `${own}.plain.sasl.jaas.config=${security}.plain.PlainLoginModule required user_instar="${password}";`,
    ...['512', '256'].map(
      (bits) => `${own}.scram-sha-${bits}.sasl.jaas.config=${security}.scram.ScramLoginModule required;`,
    ),
  ]
}

type Ports = { id: number; port: number; control: number; inner: number }

const settings = (
  { id, port, control, inner }: Ports,
  all: readonly Ports[],
  data: string,
  advertised: number | undefined,
  secure: SecureListener | undefined,
): string => {
  const copies = all.length
  const lines = [
    'process.roles=broker,controller',
    `node.id=${id}`,
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${control}${advertised ? `,PROXY://127.0.0.1:${inner}` : ''}${secure ? `,SECURE://127.0.0.1:${secure.port}` : ''}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}${advertised ? `,PROXY://127.0.0.1:${advertised}` : ''}${secure ? `,SECURE://localhost:${secure.port}` : ''}`,
    'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:PLAINTEXT,SECURE:SASL_SSL',
    ...(secure ? secureSettings(secure) : []),
    'inter.broker.listener.name=PLAINTEXT',
    'controller.listener.names=CONTROLLER',
    copies === 1
      ? `controller.quorum.bootstrap.servers=127.0.0.1:${control}`
      : `controller.quorum.voters=${all.map((one) => `${one.id}@127.0.0.1:${one.control}`).join(',')}`,
    `log.dirs=${data}`,
    'auto.create.topics.enable=false',
    `offsets.topic.replication.factor=${copies}`,
    'offsets.topic.num.partitions=4',
    `transaction.state.log.replication.factor=${copies}`,
    `transaction.state.log.min.isr=${copies === 1 ? 1 : 2}`,
    'transaction.state.log.num.partitions=4',
    'group.initial.rebalance.delay.ms=0',
    'group.min.session.timeout.ms=1000',
    'broker.session.timeout.ms=2000',
    'broker.heartbeat.interval.ms=500',
    'num.network.threads=2',
    'num.io.threads=2',
    'log.cleaner.dedupe.buffer.size=2097152',
    'offsets.retention.minutes=525600',
  ]
  return `${lines.join('\n')}\n`
}

/** Resolves when every node answers. */
export const startKafka = async ({
  folder,
  nodes: count = 1,
  advertised,
  secure,
  jvm = JVM,
}: KafkaStartOptions): Promise<KafkaCluster> => {
  const [jars, java] = await Promise.all([kafkaJars(), kafkaJava()])
  await mkdir(folder, { recursive: true })
  const logging = join(folder, 'log4j2.properties')
  await writeFile(logging, LOGGING)
  const program = [java, ...jvm, `-Dlog4j2.configurationFile=${logging}`, '-cp', join(jars, '*')]
  const ports: Ports[] = []
  for (let id = 1; id <= count; id++)
    ports.push({ id, port: await freePort(), control: await freePort(), inner: await freePort() })
  const nodes = await Promise.all(
    ports.map(async (own): Promise<Node> => {
      const home = join(folder, `node-${own.id}`)
      await mkdir(home, { recursive: true })
      const file = join(home, 'server.properties')
      await writeFile(file, settings(own, ports, join(home, 'data'), advertised, secure))
      const scram = secure
        ? ['512', '256'].flatMap((bits) => [
            '--add-scram',
            `SCRAM-SHA-${bits}=[name=instar,password=${secure.password}]`,
          ])
        : []
      await run(program[0]!, [
        ...program.slice(1),
        'kafka.tools.StorageTool',
        'format',
        ...(count === 1 ? ['--standalone'] : []),
        '-t',
        CLUSTER_ID,
        '-c',
        file,
        ...scram,
      ])
      let process: Guarded
      const start = async (): Promise<void> => {
        process = guarded([...program, 'kafka.Kafka', file], { folder: home, name: 'kafka' })
        await untilReady(`Kafka's node ${own.id}`, process, () => brokerAnswers(own.port))
      }
      return {
        id: own.id,
        port: own.port,
        ...(advertised ? { behindProxy: own.inner } : {}),
        start,
        pid: () => process.pid(),
        kill: () => process.kill(),
        signal: (signal) => process.signal(signal),
        said: () => process.said(),
      }
    }),
  )
  await Promise.all(nodes.map((node) => node.start()))
  return {
    brokers: nodes.map(({ port }) => `127.0.0.1:${port}`),
    nodes,
    async stop() {
      await Promise.all(nodes.map((node) => node.kill()))
    },
  }
}
