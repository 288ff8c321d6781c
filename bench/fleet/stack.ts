/** The processes of a fleet on one broker, and what they have used. Linux: /proc. */
import { mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeEvent, schemaTexts, type Event } from '@instar/events'
import { announceUpgrade, type EventLog } from '@instar/log'
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { openModel } from '@instar/policy'
import { lineStarted } from '../../test/kit/projected-history.ts'
import { ROOT } from '../../tools/tree.ts'
import { readUsage } from '../gateway/process.ts'
import { startProgram, type Service, type ServiceProcess } from '../services/process.ts'
import type { Clock } from './day.ts'
import type { FleetServiceConfig } from './service.ts'

const MODEL = join(ROOT, 'models/tiny')
const PROGRAM = join(import.meta.dirname, 'service.ts')

/** A gateway that reads and gets no request. */
export const ONLOOKER = 'gateway without requests'
/** Beside the trainer, which reads `scores` alone; only where there is one gateway. */
export const READER = 'trainer that reads turns'
export const BROKER = 'broker'
export const POSTGRES = 'PostgreSQL'
export type SubjectName = Service | typeof ONLOOKER | typeof READER | typeof BROKER | typeof POSTGRES

type Process = { name: SubjectName; process: ServiceProcess; scratch: string }
/** Since the start of the processes, one value for each process of the subject. `writtenBytes`: to disk, as the kernel counts. */
export type Reading = Map<SubjectName, { cpuMs: number[]; megabytes: number[]; writtenBytes: number[] }>

export type FleetStack = {
  log: EventLog
  urls: string[]
  /** Starts the trainers. They leave `turns` only at a start on a log with scores. */
  startTrainers(): Promise<void>
  /** Resolves when PostgreSQL has all that is on the log. */
  projected(): Promise<unknown>
  read(): Promise<Reading>
  /** Bytes of the snapshots of each process. */
  snapshotBytes(): Promise<Map<SubjectName, number[]>>
  /** CPU ms that a new process of the service takes until it has read the log, without loading its program. */
  readLog(service: Service): Promise<number>
  stop(): Promise<void>
}
export type StackOptions = {
  brokers: string[]
  brokerPid: number
  prefix: string
  folder: string
  gateways: number
  clock: Clock
}

const openLog = (brokers: string[], prefix: string): Promise<EventLog> => {
  const schemas = schemaTexts()
  const registry = new Map(Object.keys(schemas).map((name, i) => [name, i + 1]))
  return openKafkaLog({ brokers, prefix, clientId: 'bench', schemas, registry })
}

/** A line on which learning is frozen, so that what trainer and publisher cost is their reading. */
const startFrozenLine = async (log: EventLog, at: number): Promise<void> => {
  const { name, sha256 } = await openModel(MODEL)
  const started = encodeEvent({ ...lineStarted(), base: { name, sha256 }, at })
  const frozen: Event = {
    type: 'LearningFrozen',
    prev: started.id,
    policy: 'policy',
    on: true,
    who: 'bench',
    why: 'the fleet measures reading',
    request: 'bench',
    at,
  }
  await log.append(
    [started, encodeEvent(frozen)].map(({ topic, key, schema, payload, timestamp }) => ({
      topic,
      key,
      schema,
      payload,
      timestamp,
    })),
  )
}

/** n gateways and n scorers, a publisher and projections; beside a single gateway the onlooker. */
export const startStack = async (options: StackOptions): Promise<FleetStack> => {
  const { brokers, brokerPid, prefix, folder, gateways, clock } = options
  await setupKafka({ brokers, prefix })
  const log = await openLog(brokers, prefix)
  await startFrozenLine(log, clock.simulatedStart)
  await announceUpgrade(log, 'bench', clock.simulatedStart, new AbortController().signal)
  const processes: Process[] = []
  let started = 0
  const start = async (name: SubjectName, service: Service, scoresAlone = true): Promise<Process> => {
    const scratch = join(folder, `${service}-${started++}`)
    // PostgreSQL may run as another user, which must reach its data.
    await mkdir(scratch, { recursive: true, mode: 0o711 })
    const config: FleetServiceConfig = { brokers, prefix, model: MODEL, scratch, clock, scoresAlone }
    const process = { name, process: await startProgram(PROGRAM, service, config), scratch }
    processes.push(process)
    return process
  }
  for (let i = 0; i < gateways; i += 1) await start('gateway', 'gateway')
  if (gateways === 1) await start(ONLOOKER, 'gateway')
  for (let i = 0; i < gateways; i += 1) await start('scorer', 'scorer')
  await start('publisher', 'publisher')
  const projections = await start('projections', 'projections')

  return {
    log,
    urls: processes.filter(({ name }) => name === 'gateway').map(({ process }) => process.url),
    async startTrainers() {
      await start('trainer', 'trainer')
      if (gateways === 1) await start(READER, 'trainer', false)
    },
    projected: () => projections.process.settled(),
    async read() {
      const reading: Reading = new Map()
      const add = (name: SubjectName, cpuMs: number, megabytes: number, writtenBytes: number): void => {
        const all = reading.get(name) ?? { cpuMs: [], megabytes: [], writtenBytes: [] }
        all.cpuMs.push(cpuMs)
        all.megabytes.push(megabytes)
        all.writtenBytes.push(writtenBytes)
        reading.set(name, all)
      }
      for (const { name, process } of processes) {
        const { cpuSeconds, megabytes } = await process.usage()
        add(name, 1000 * cpuSeconds, megabytes, await writtenBy(process.pid))
      }
      const helper = projections.process.helper
      for (const [name, pid] of [[BROKER, brokerPid] as const, ...(helper ? [[POSTGRES, helper] as const] : [])]) {
        const { cpuMs, megabytes } = await readUsage(pid)
        add(name, cpuMs, megabytes, await writtenBy(pid))
      }
      return reading
    },
    async snapshotBytes() {
      const sizes = new Map<SubjectName, number[]>()
      for (const { name, scratch } of processes)
        sizes.set(name, [...(sizes.get(name) ?? []), await sizeOf(join(scratch, 'snapshots'))])
      return sizes
    },
    async readLog(service) {
      const { process } = await start(service, service)
      processes.pop()
      const { cpuSeconds } = await process.usage()
      await process.stop()
      return 1000 * cpuSeconds
    },
    async stop() {
      // The last started first, so that no service waits for one that is gone.
      for (const { process } of processes.toReversed()) await process.stop()
      await log.close()
    },
  }
}

/** Bytes that the process caused to be written to disk; 0 where the kernel does not say. */
const writtenBy = async (pid: number): Promise<number> => {
  try {
    return Number(/^write_bytes: (\d+)$/m.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0)
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return 0
    throw error
  }
}

const sizeOf = async (folder: string): Promise<number> => {
  const names = await readdir(folder).catch(() => [])
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}
