import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { ROOT } from '../../../tools/tree.ts'
import { adminTokenIn } from '@instar/process'
import { startRig } from '../../../test/kit/gateway.ts'
import { showDashboard, staysUntilStopped, untilStopped } from './watch.ts'

test('the demo that is watched prints a link to a dashboard with a database, and Ctrl-C ends it', async (t) => {
  const args = [join(ROOT, 'cli/instar.cjs'), 'demo', '--short', '--watch']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  let err = ''
  child.stderr.on('data', (bytes: Buffer) => (err += bytes.toString()))
  let url = ''
  let code = ''
  let data = ''
  for await (const line of createInterface({ input: child.stdout })) {
    const link = /^with every right.*: (http:\S+)\/#code=([\w-]+)$/.exec(line)
    if (link) [, url, code] = link as unknown as [string, string, string]
    const folder = /data in (\S+)/.exec(line)
    if (!folder) continue
    data = folder[1]!
    const begun = await fetch(`${url}/v1/dashboard/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    })
    assert.equal(begun.status, 200)
    const session = (await (await fetch(`${url}/v1/dashboard/session`)).json()) as { database: boolean }
    assert.ok(session.database && existsSync(data))
    child.kill('SIGINT')
  }
  assert.deepEqual(await ended, [1, null])
  assert.match(err, /aborted: The demo was stopped before its end/)
  assert.ok(!existsSync(data))
})

test('the code of the link is printed and not in the command line of the browser, which all users of the machine can read', async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'instar-watch-'))
  t.after(() => rmSync(data, { recursive: true }))
  const { url, stop } = await startRig({ settings: { adminToken: null, adminTokenFile: adminTokenIn(data) } })
  t.after(stop)
  const [opened, said]: [string[], string[]] = [[], []]
  const watch = { stop: new AbortController().signal, open: (address: string) => void opened.push(address) }
  await showDashboard(watch, { url, data }, (line) => said.push(line))
  assert.deepEqual(opened, [`${url}/`])
  assert.match(said.join('\n'), /with every right.*\/#code=[\w-]{43}$/)
})

test('after the demo the pipeline stays until it is stopped', async () => {
  const stop = new AbortController()
  const watch = { stop: stop.signal, open: () => undefined }
  assert.equal(await untilStopped(watch, Promise.resolve(7)), 7)
  const said: string[] = []
  const stays = staysUntilStopped(watch, 'http://127.0.0.1:1', (line) => said.push(line))
  assert.equal(await Promise.race([stays.then(() => 'ended'), Promise.resolve('stays')]), 'stays')
  assert.match(said.join(), /goes on at http:\/\/127\.0\.0\.1:1\/ .* Ctrl-C ends it/)
  stop.abort()
  await stays
  await assert.rejects(untilStopped(watch, new Promise(() => undefined)), { code: 'aborted' })
  await staysUntilStopped(undefined, '', () => assert.fail())
})
