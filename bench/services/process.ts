/** Starts services as child processes and reads their resource usage. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export type Service = 'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections'
/** `scratch`: a folder for the files of this process. */
export type ServiceConfig = { model: string; scratch: string } & (
  | { log: 'memory' }
  | { log: 'embedded'; folder: string }
  | { log: 'kafka'; brokers: readonly string[]; prefix: string }
)

/** Since the log was opened. `megabytes`: largest resident set. */
export type Usage = { seconds: number; cpuSeconds: number; megabytes: number }
export type Request = { type: 'usage' | 'settled' | 'lastTokens' }
/** `lastTokens`: seed of a request and time of its last token, ms since the epoch. */
/** `helper`: the id of another process that the service started, such as PostgreSQL. */
export type Reply = { usage: Usage; url?: string; helper?: number; lastTokens?: [seed: number, at: number][] }

export type ServiceProcess = {
  pid: number
  /** As in `Reply`; null: none. */
  helper: number | null
  /** Empty except for a gateway. */
  url: string
  usage(): Promise<Usage>
  /** Resolves when the service has no unfinished work. */
  settled(): Promise<Usage>
  /** Of a gateway: seed of a request → time of its last token, ms since the epoch. */
  lastTokens(): Promise<Map<number, number>>
  stop(): Promise<void>
}

/** Resolves when the service has started. */
export const startService = (service: Service, config: ServiceConfig): Promise<ServiceProcess> =>
  startProgram(join(import.meta.dirname, 'child.ts'), service, config)

/** Starts a service by a program that answers as `child.ts` does. `config` is given to it as JSON. */
export const startProgram = async (program: string, service: Service, config: object): Promise<ServiceProcess> => {
  const child = fork(program, [service, JSON.stringify(config)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`the ${service} ended with exit code ${String(code)}`)
  })
  failed.catch(() => undefined)
  const nextReply = async (): Promise<Reply> => {
    const [reply] = (await Promise.race([once(child, 'message'), failed])) as [Reply]
    return reply
  }
  const send = (type: Request['type']): Promise<Reply> => {
    const reply = nextReply()
    child.send({ type } satisfies Request)
    return reply
  }
  const { url = '', helper = null } = await nextReply()
  return {
    pid: child.pid!,
    helper,
    url,
    usage: async () => (await send('usage')).usage,
    settled: async () => (await send('settled')).usage,
    lastTokens: async () => new Map((await send('lastTokens')).lastTokens),
    async stop() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
