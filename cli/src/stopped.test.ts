/** The first Ctrl-C ends a command that reads the log, and what it wrote is gone. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts, type Event } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { folder } from '../../test/kit/cli.ts'
import { runCli } from './cli.ts'

const line: Event = {
  type: 'LineStarted',
  prev: '',
  policy: 'policy',
  mode: 'live',
  base: { name: 'tiny', sha256: '9'.repeat(64) },
  parent: null,
  settings: {},
  at: 1,
}

/** Aborted from the time on when it was asked `after` times. */
const stopAfter = (after: number): AbortSignal => {
  const { signal } = new AbortController()
  let asked = 0
  Object.defineProperty(signal, 'aborted', { get: () => (asked += 1) > after })
  return signal
}

for (const args of [['versions'], ['show', '0'], ['doctor']])
  test(`${args[0]} ends at the first stop signal without its temporary file, also while it reads`, async (t) => {
    const [data, temporary] = [join(folder(), 'data'), folder()]
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    const { id: _, ...record } = encodeEvent(line)
    await log.append([record])
    await log.close()
    const before = process.env['TMPDIR']
    process.env['TMPDIR'] = temporary
    t.after(() => {
      if (before === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = before
    })
    for (const after of [0, 1, 2]) {
      let err = ''
      const code = await runCli(args, {
        env: { INSTAR_DATA: data },
        cwd: '/',
        out: () => undefined,
        err: (text) => (err += text),
        terminal: false,
        stop: stopAfter(after),
      })
      equal(code, 1, `${after}: ${err}`)
      match(err, new RegExp(`^instar ${args[0]}: aborted: The command was stopped`, 'm'))
      deepEqual(readdirSync(temporary), [])
    }
  })
