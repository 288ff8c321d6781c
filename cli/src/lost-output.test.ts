/** Standard output and standard error that take no bytes, as on a full disk: /dev/full of Linux. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { equal, match } from 'node:assert/strict'
import { existsSync, openSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ROOT } from '../../tools/tree.ts'
import { folder } from '../../test/kit/cli.ts'
import { children } from '../../test/kit/up.ts'

const full = existsSync('/dev/full') ? {} : { skip: 'no /dev/full' }
const main = [join(ROOT, 'bootstrap.cjs'), join(ROOT, 'cli/src/main.ts')]

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

test('a command whose output is not written says so and exits with 1', full, async () => {
  const child = spawn(process.execPath, [...main, '--version'], {
    stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
  })
  let err = ''
  child.stderr!.on('data', (text: Buffer) => (err += text.toString()))
  equal((await once(child, 'close'))[0], 1)
  match(err, /^instar: output is lost: ENOSPC[^\n]*\n$/)
})

test('the pipeline runs on when its output is not written', full, async (t: TestContext) => {
  const [data, port, device] = [folder(), await freePort(), openSync('/dev/full', 'w')]
  const child = spawn(process.execPath, [...main, 'up', '--port', String(port), '--data', data], {
    stdio: ['ignore', device, device],
  })
  children.push(child)
  const ended = once(child, 'exit')
  let answer: Response | null = null
  for (; answer?.status !== 200 && child.exitCode === null && child.signalCode === null; await pause(50))
    answer = await fetch(`http://127.0.0.1:${port}/health/ready`, { signal: t.signal }).catch(() => null)
  equal(answer?.status, 200)
  child.kill('SIGTERM')
  equal((await ended)[1], null)
})
