/** How `instar up` refuses, what it prints, and how it ends when its log can no longer be written. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ROOT } from '../../../tools/tree.ts'
import { folder, instar } from '../../../test/kit/cli.ts'
import { children, up } from '../../../test/kit/up.ts'

/** Whether prlimit is installed, which limits the file size of a running process. */
const prlimit = spawnSync('prlimit', ['--version']).status === 0

describe('instar up: output and refusals', () => {
  test('a log that cannot be written any more ends the process with log_broken', { skip: !prlimit }, async () => {
    const { child, ready, ended, err } = await up(folder())
    const limit = `--fsize=${statSync(join(ready.data, 'log', 'log.db-wal')).size}`
    equal(spawnSync('prlimit', ['--pid', String(child.pid), limit]).status, 0)
    const codes: unknown[] = []
    for (let i = 0; i < 10 && child.exitCode === null; i += 1) {
      const response = await fetch(`${ready.url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({
          model: 'policy',
          max_tokens: 8,
          messages: [{ role: 'user', content: 'Hello' }],
          metadata: { filler: 'x'.repeat(200_000) },
        }),
      }).catch(() => null)
      if (!response) break
      codes.push(((await response.json()) as { error?: { code: string } }).error?.code)
      const live = await fetch(`${ready.url}/health/ready`).catch(() => null)
      if (live && codes.at(-1) === 'log_broken') equal(live.status, 503)
    }
    deepEqual(await ended, [1, null])
    ok(
      codes.every((code) => code === 'log_broken' || code === 'stopping'),
      JSON.stringify(codes),
    )
    match(err(), /^instar up: log_broken: the log cannot be written any more: .*disk I\/O error/m)
    match(err(), /Check the disk/)
  })

  test('a missing model and an open bind are refused before anything is started', async () => {
    const data = folder()
    const absent = await instar(['up', '--data', data, '--model', './absent', '--json'], {})
    deepEqual([absent.code, (absent.json as { error: { code: string } }).error.code], [1, 'bad_checkpoint'])
    const open = await instar(['up', '--data', data, '--host', '0.0.0.0', '--port', '0', '--json'], {})
    deepEqual([open.code, (open.json as { error: { code: string } }).error.code], [1, 'open_bind'])
  })

  test('prints the gateway, the model, psql and the data folder', async () => {
    const data = folder()
    const child = spawn(process.execPath, [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    children.push(child)
    const ended = once(child, 'exit')
    let out = ''
    for await (const text of child.stdout as AsyncIterable<Buffer>) {
      out += text.toString()
      if (out.includes('Ctrl-C')) break
    }
    child.kill('SIGTERM')
    deepEqual(await ended, [0, null])
    match(out, /gateway +http:\/\/127\.0\.0\.1:\d+\/v1/)
    match(out, /model +.*small model.*cannot drive a\s+coding agent/s)
    match(out, /SQL +psql "/)
    match(out, new RegExp(`data +${data}`))
    match(out, /import OpenAI from 'openai'/)
  })
})
