/** Services of the bench as processes: starting them, asking them what they used. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export type Service = 'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections'
/** `scratch`: a folder of the process's own. */
export type Place = { model: string; scratch: string } & (
  | { log: 'memory' }
  | { log: 'embedded'; folder: string }
  | { log: 'kafka'; brokers: readonly string[]; prefix: string }
)

/** Since the log was open; the most memory that was resident. */
export type Used = { seconds: number; cpuSeconds: number; megabytes: number }
export type Question = { ask: 'used' | 'settled' | 'lastTokens' }
export type Answer = { used: Used; url?: string; lastToken?: [seed: number, at: number][] }

export type Running = {
  url: string
  used(): Promise<Used>
  /** When everything on the log is worked on. */
  settled(): Promise<Used>
  /** Of a gateway's engine: seed → milliseconds since the epoch. */
  lastTokens(): Promise<Map<number, number>>
  stop(): Promise<void>
}

/** Resolves when it has started. */
export const startService = async (service: Service, place: Place): Promise<Running> => {
  const child = fork(join(import.meta.dirname, 'child.ts'), [service, JSON.stringify(place)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`the ${service} ended with ${String(code)}`)
  })
  failed.catch(() => undefined)
  const heard = async (): Promise<Answer> => {
    const [answer] = (await Promise.race([once(child, 'message'), failed])) as [Answer]
    return answer
  }
  const ask = (question: Question['ask']): Promise<Answer> => {
    const answer = heard()
    child.send({ ask: question })
    return answer
  }
  const { url = '' } = await heard()
  return {
    url,
    used: async () => (await ask('used')).used,
    settled: async () => (await ask('settled')).used,
    lastTokens: async () => new Map((await ask('lastTokens')).lastToken),
    async stop() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
