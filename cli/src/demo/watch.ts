/** `npm run demo -- --watch`: the dashboard's address at the start, and a pipeline that stays until Ctrl-C. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { InstarError } from '@instar/events/errors'
import { adminTokenIn } from '@instar/process'
import { requestAdmin } from '../admin-client.ts'

/** `open`: shows an address to the person, besides its line. Other users of the machine can read it (a process's arguments). */
export type Watch = { stop: AbortSignal; open: (url: string) => void }

/** Opens the dashboard, and writes its address and a link that begins a session with every right: who reads its code has them. */
export const showDashboard = async (
  watch: Watch | undefined,
  { url, data }: { url: string; data: string },
  write: (line: string) => void,
): Promise<void> => {
  if (!watch) return
  const { hostname, port } = new URL(url)
  const gateway = { host: hostname, port: Number(port), adminTokenFile: adminTokenIn(data) }
  const { path } = await requestAdmin<{ path: string }>(gateway, '/admin/dashboard-link', {})
  write(`dashboard ${url}/`)
  write(`with every right, once within five minutes: ${url}${path}`)
  watch.open(`${url}/`)
}

/** Settles as `work`, or rejects with `aborted` at Ctrl-C. */
export const untilStopped = async <T>(watch: Watch | undefined, work: Promise<T>): Promise<T> => {
  if (!watch) return work
  const stopped = async (): Promise<never> => {
    if (!watch.stop.aborted) await once(watch.stop, 'abort')
    throw new InstarError('aborted', 'The demo was stopped before its end.')
  }
  return Promise.race([work, stopped()])
}

export const staysUntilStopped = async (
  watch: Watch | undefined,
  url: string,
  write: (line: string) => void,
): Promise<void> => {
  if (!watch || watch.stop.aborted) return
  write(`\nThe pipeline goes on at ${url}/ and learns from what you say; Ctrl-C ends it.`)
  await once(watch.stop, 'abort')
}

/** Starts the system's browser where there is a screen; without one the printed address has to do. */
export const openBrowser = (env: Readonly<Record<string, string | undefined>>, url: string): void => {
  const [program, ...args] =
    process.platform === 'darwin'
      ? ['open', url]
      : process.platform === 'win32'
        ? ['cmd', '/c', 'start', '', url]
        : env['DISPLAY'] || env['WAYLAND_DISPLAY']
          ? ['xdg-open', url]
          : []
  if (program === undefined) return
  const child = spawn(program, args, { stdio: 'ignore', detached: true })
  child.on('error', () => undefined)
  child.unref()
}
