/** `instar up` as a process of its own. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after } from 'node:test'
import { ROOT } from '../../tools/tree.ts'

type Ready = { url: string; data: string; psql: string; engine: string; version: number; frozen: boolean }
type Up = {
  child: ChildProcess
  ready: Ready
  env: Record<string, string>
  ended: Promise<unknown[]>
  err: () => string
}

/** Killed at the end of the test file. */
export const children: ChildProcess[] = []
after(() => children.forEach((child) => child.kill('SIGKILL')))

/** Starts a process group, as a shell does; resolves when the pipeline runs. `env`: in addition to that of this process. */
export const up = async (
  data: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Up> => {
  const child = spawn(
    process.execPath,
    [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data, '--json', ...args],
    { detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } },
  )
  children.push(child)
  const ended = once(child, 'exit')
  let out = ''
  let err = ''
  child.stderr!.on('data', (text: Buffer) => (err += text.toString()))
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.stdout!.on('data', (text: Buffer) => {
      out += text.toString()
      const line = out.split('\n').find((one) => one.startsWith('{"url"'))
      if (line) resolve(JSON.parse(line) as Ready)
    })
    void ended.then(() => reject(new Error(`the process ended before the pipeline ran: ${out}${err}`)))
  })
  return { child, ready, env: { INSTAR_DATA: data, INSTAR_PORT: new URL(ready.url).port }, ended, err: () => err }
}
