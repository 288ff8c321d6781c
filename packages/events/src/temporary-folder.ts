/**
 * Temporary folders of a process that ends by a kill, too: the name has the process, and the next process that makes one of
 * the same kind removes those of processes that no longer run.
 */
import { createHash } from 'node:crypto'
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A new private folder `instar-<kind>-<process>-…`; its maker removes it. `kind`: lower-case letters. A process is its id, the
 * place where ids are counted and the time of its start: a container that shares the folder for temporary files counts ids of its
 * own, and another process may get the id of one that has ended. Where the system does not tell these, the id alone.
 */
export const makeTemporaryFolder = (kind: string): string => {
  removeLeft(kind)
  const start = startOf(process.pid)
  const own = PLACE === null || start === null ? `${process.pid}` : `${process.pid}.${PLACE}.${start}`
  return mkdtempSync(join(tmpdir(), `instar-${kind}-${own}-`))
}

/** Clock ticks after the start of the machine (proc(5), `stat`, field 22, counted from the bracket after the name); null: not told. */
const startOf = (pid: number): string | null => {
  try {
    return /^.*\) (?:\S+ ){19}(\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1] ?? null
  } catch {
    return null
  }
}

/** The machine and the namespace of process ids; null: not told. */
const placeOf = (): string | null => {
  try {
    const space = /\[(\d+)\]/.exec(readlinkSync('/proc/self/ns/pid'))?.[1]
    return space === undefined ? null : createHash('sha256').update(`${hostname()} ${space}`).digest('hex').slice(0, 12)
  } catch {
    return null
  }
}
const PLACE = placeOf()

/** Of this user alone: another's folder could be a link, or is not to be removed. */
const removeLeft = (kind: string): void => {
  const form = new RegExp(`^instar-${kind}-(\\d+)(?:\\.(\\w+)\\.(\\d+))?-`)
  for (const name of readdirSync(tmpdir())) {
    const [, pid, place = null, start] = form.exec(name) ?? []
    if (pid === undefined || place !== PLACE || isRunning(Number(pid), start)) continue
    const path = join(tmpdir(), name)
    try {
      const found = lstatSync(path)
      const user = process.geteuid?.() ?? found.uid
      if (found.isDirectory() && found.uid === user) rmSync(path, { recursive: true })
    } catch {
      // Another process removed it, or may alone; a folder that stays costs room.
    }
  }
}

/** Whether a process of this machine has the id. `start`: of the process that is meant; undefined: any of that id. */
export const isRunning = (pid: number, start?: string): boolean => {
  const found = start === undefined ? null : startOf(pid)
  if (found !== null) return found === start
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
