/** Processes that divide work among them, and waiting until each partition has exactly one owner. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export type MemberProcess = {
  /** As it said last. */
  share(): readonly number[]
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
  /** Leaves in good order. */
  end(): Promise<void>
}

export type Members = {
  start(): MemberProcess
  /** Resolves with the milliseconds that it took until these have every partition once, evenly. */
  settled(members: readonly MemberProcess[]): Promise<number>
  killAll(): Promise<void>
}

const even = (shares: readonly (readonly number[])[], partitions: number): boolean => {
  const owned = shares.flat()
  const sizes = shares.map(({ length }) => length)
  return owned.length === partitions && new Set(owned).size === partitions && Math.max(...sizes) - Math.min(...sizes) <= 1
}

export const membersOf = (place: { brokers: readonly string[]; prefix: string; session: number }, partitions: number): Members => {
  const running = new Set<MemberProcess>()
  let changed = Promise.withResolvers<void>()
  return {
    start() {
      const child = spawn(process.execPath, [fileURLToPath(new URL('../processes/member.ts', import.meta.url)), JSON.stringify(place)], { detached: true, stdio: ['pipe', 'pipe', 'inherit'] })
      const exited = once(child, 'exit')
      let share: number[] = []
      createInterface({ input: child.stdout }).on('line', (line) => {
        share = JSON.parse(line) as number[]
        changed.resolve()
        changed = Promise.withResolvers()
      })
      const member: MemberProcess = {
        share: () => share,
        signal: (signal) => void process.kill(-child.pid!, signal),
        async kill() {
          if (running.delete(member)) process.kill(-child.pid!, 'SIGKILL')
          await exited
        },
        async end() {
          running.delete(member)
          child.stdin.end()
          const [code] = await exited as [number | null]
          if (code !== 0) throw new Error(`a member ended with ${code}`)
        },
      }
      running.add(member)
      return member
    },
    async settled(members) {
      const begin = performance.now()
      while (!even(members.map((member) => member.share()), partitions)) await changed.promise
      return Math.round(performance.now() - begin)
    },
    async killAll() {
      await Promise.all([...running].map((member) => member.kill()))
    },
  }
}
