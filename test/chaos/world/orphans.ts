/** Finds processes that refer to a folder, from Linux's /proc. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

const said = (read: () => string): string => {
  try {
    return read()
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  }
}

/** By command line, working directory or environment. Empty without /proc. */
export const processesOf = (folder: string): string[] =>
  (process.platform === 'linux' ? readdirSync('/proc') : [])
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const [command, cwd, environment] = [
        () => readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
        () => readlinkSync(`/proc/${pid}/cwd`),
        () => readFileSync(`/proc/${pid}/environ`, 'utf8'),
      ].map(said)
      return [command, cwd, environment].some((text) => text!.includes(folder))
        ? [`${pid} ${command!.replaceAll('\0', ' ').slice(0, 200)}`]
        : []
    })

/** A killed process may take a moment to end. */
export const untilNothingLeft = async (folder: string, ms = 30_000): Promise<void> => {
  for (const until = Date.now() + ms; processesOf(folder).length > 0; await pause(50)) {
    if (Date.now() > until) throw new Error(`left behind: ${processesOf(folder).join('; ')}`)
  }
}
