/** The processes of a server that runs in a process group of its own. */
import { readFileSync, readdirSync } from 'node:fs'

/** The processes of a group from /proc: their names and resident memory. */
export const groupOf = (group: number): { pid: number; name: string; kib: number }[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]) !== group) return []
        const kib = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1] ?? 0)
        return [
          { pid: Number(name), name: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim(), kib },
        ]
      } catch (error) {
        if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
        throw error
      }
    })

/** Resident memory of all processes of the group, MiB. */
export const memoryOf = (group: number): number =>
  Math.round(groupOf(group).reduce((sum, { kib }) => sum + kib, 0) / 1024)
