/** Processes that divide work among them, and a wait until each partition has exactly one owner. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export type MemberProcess = {
  /** As it last reported. */
  share(): readonly number[]
  /** The pieces of work that it began, in order. */
  did(): readonly string[]
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
  /** Leaves the group and stops. */
  end(): Promise<void>
}

export type Members<Place> = {
  start(place?: Partial<Place>): MemberProcess
  /** Resolves with the milliseconds until the condition holds. Checked at each report. */
  until(holds: () => boolean): Promise<number>
  /** Until these processes have every partition once, evenly. */
  settled(members: readonly MemberProcess[]): Promise<number>
  killAll(): Promise<void>
}

const even = (shares: readonly (readonly number[])[], partitions: number): boolean => {
  const owned = shares.flat()
  const sizes = shares.map(({ length }) => length)
  return (
    owned.length === partitions && new Set(owned).size === partitions && Math.max(...sizes) - Math.min(...sizes) <= 1
  )
}

/** `script` of ../processes prints lines of JSON: `{share: number[]}` or `{did: string}`. */
export const membersOf = <Place extends object>(script: string, place: Place, partitions: number): Members<Place> => {
  const running = new Set<MemberProcess>()
  let changed = Promise.withResolvers<void>()
  const until = async (holds: () => boolean): Promise<number> => {
    const begin = performance.now()
    while (!holds()) await changed.promise
    return Math.round(performance.now() - begin)
  }
  return {
    start(more = {}) {
      const child = spawn(
        process.execPath,
        [
          fileURLToPath(new URL(`../../int/processes/${script}.ts`, import.meta.url)),
          JSON.stringify({ ...place, ...more }),
        ],
        { detached: true, stdio: ['pipe', 'pipe', 'inherit'] },
      )
      const exited = once(child, 'exit')
      let share: number[] = []
      const did: string[] = []
      createInterface({ input: child.stdout }).on('line', (line) => {
        const said = JSON.parse(line) as { share: number[] } | { did: string }
        if ('share' in said) share = said.share
        else did.push(said.did)
        changed.resolve()
        changed = Promise.withResolvers()
      })
      const member: MemberProcess = {
        share: () => share,
        did: () => did,
        signal: (signal) => void process.kill(-child.pid!, signal),
        async kill() {
          if (running.delete(member)) process.kill(-child.pid!, 'SIGKILL')
          await exited
        },
        async end() {
          running.delete(member)
          child.stdin.end()
          const [code] = (await exited) as [number | null]
          if (code !== 0) throw new Error(`a member ended with ${code}`)
        },
      }
      running.add(member)
      return member
    },
    until,
    settled: (members) =>
      until(() =>
        even(
          members.map((member) => member.share()),
          partitions,
        ),
      ),
    async killAll() {
      await Promise.all([...running].map((member) => member.kill()))
    },
  }
}
