/** The pipeline between two real servers: `instar up` on the embedded log, or a process for each service on Kafka. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openKafkaLog } from '@instar/log/kafka/index'
import { schemaTexts } from '@instar/events'
import OpenAI from 'openai'
import { startWorld } from '../../chaos/world/world.ts'
import { dataFolder, done, up } from '../../flow/process.ts'
import { Witness, witness } from '../../flow/witness.ts'
import { ROOT } from '../../../tools/tree.ts'

/** The start reads the base model and asks the server for its probe, which takes minutes on two busy cores. */
const START_MS = 1_200_000

const COMMAND_MS = 15 * 60_000

export type Pipeline = {
  url: string
  client: OpenAI
  seen: Witness
  /** The end of what its processes wrote to their consoles. */
  said(): string
  /** A command's JSON; throws if it fails. */
  command<T>(...args: string[]): Promise<T>
  /** kill -9 of the process that trains, which is started again; null where that is the whole pipeline. */
  killTrainer: (() => Promise<void>) | null
  /** SIGTERM; resolves with the exit code of each process. */
  stop(): Promise<(number | null)[]>
  /** Ends what is left of it, in every case. */
  end(): Promise<void>
}

export const onEmbeddedLog = (): ((env: Record<string, string>) => Promise<Pipeline>) => {
  const data = dataFolder()
  return async (env) => {
    const pipeline = await up(data, env, START_MS)
    const seen = await witness(data)
    const { url } = pipeline.ready
    return {
      url,
      client: pipeline.client,
      seen,
      said: () => pipeline.said().slice(-2000),
      // Without the model of the pipeline `verify` would read the turns as those of the default one.
      command: (...args) => done({ data, url, env, ms: COMMAND_MS }, ...args),
      killTrainer: null,
      stop: async () => [await pipeline.stop(COMMAND_MS)],
      async end() {
        await seen.stop()
        await pipeline.stop(COMMAND_MS)
      },
    }
  }
}

/** Kafka, a schema registry and PostgreSQL as `npm run test:int` starts them. */
export const onKafka = async (env: Record<string, string>): Promise<Pipeline> => {
  const world = await startWorld({
    services: { gateway: 1, scorer: 1 },
    // An answer of a real model on busy cores takes longer than the seconds after which that world closes a session.
    env: { INSTAR_SESSION_IDLE: '600', ...env },
    readyMs: START_MS,
  })
  const [gateway] = world.of('gateway')
  const [trainer] = world.of('trainer')
  const log = await openKafkaLog({
    brokers: world.kafka.brokers,
    clientId: 'witness',
    registry: world.registry.url,
    schemas: schemaTexts(),
  })
  const seen = new Witness(log)
  await seen.follow()
  return {
    url: gateway!.url,
    client: new OpenAI({ baseURL: `${gateway!.url}/v1`, apiKey: 'none', maxRetries: 0 }),
    seen,
    said: () => world.services.map(({ name, said }) => `${name}: ${said(600)}`).join('\n'),
    async command<T>(...args: string[]): Promise<T> {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [join(ROOT, 'cli/src/main.ts'), ...args, '--json'],
        {
          cwd: world.folder,
          env: {
            ...process.env,
            ...world.env,
            INSTAR_PORT: new URL(gateway!.url).port,
            // Its token lets commands in.
            INSTAR_DATA: join(world.folder, 'services', gateway!.name),
          },
          timeout: COMMAND_MS,
          maxBuffer: 16 << 20,
        },
      )
      return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as T
    },
    async killTrainer() {
      await trainer!.kill()
      await trainer!.ready()
    },
    stop: async () => Object.values(await world.stopServices()),
    async end() {
      await seen.stop()
      await world.end()
    },
  }
}
