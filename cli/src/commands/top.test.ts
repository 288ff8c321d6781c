import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { runCli } from '../cli.ts'
import type { Environment } from '../config.ts'
import { screenOf, type Reading } from '../top-screen.ts'
import { folder, instar } from '../../../test/kit/cli.ts'
import { startRig } from '../../../test/kit/gateway.ts'

const READING: Reading = {
  at: '2026-01-01T10:20:30.000Z',
  status: 'ready',
  problem: null,
  policy: 'policy',
  model: { name: 'tiny' },
  engine: { name: 'wasm' },
  head: 4,
  serving: 3,
  frozen: false,
  rejections_in_a_row: 3,
  requests: { running: 2 },
  log: { failed: 0, unreadable: 0 },
  index: { sessions: 5, turns: 40 },
  lag: { gateway: 0, scorer: 0.4, trainer: 12.6, publisher: null, projections: 0 },
  gauges: {
    instar_update_progress: [{ labels: {}, value: 0.5 }],
    instar_update_remaining_seconds: [{ labels: {}, value: 7.2 }],
    instar_turns_pending: [{ labels: {}, value: 9 }],
    instar_turns_needed: [{ labels: {}, value: 7 }],
    instar_turns_skipped_total: [{ labels: { reason: 'no_next_state' }, value: 2 }],
    instar_turns_dropped_total: [{ labels: { reason: 'stale' }, value: 6 }],
    instar_request_errors_total: [{ labels: { code: 'bad\u001B[2Jcode' }, value: 1 }],
  },
}

const plain = (lines: readonly string[]): string[] => lines.map((line) => line.replace(/\p{Cc}\[\d+m/gu, ''))

test('the screen says what serves, is learned, is not trained on, and what needs attention', () => {
  const lines = screenOf(READING, { columns: 120, colour: false })
  const rows = Object.fromEntries(lines.slice(2).map((line) => [line.slice(2, 16).trim(), line.slice(18)]))
  equal(lines[0], 'policy · tiny · wasm · ready · 10:20:30 UTC')
  equal(rows['Serving'], 'version 3; the head, version 4, is being loaded; 2 requests running')
  equal(rows['Learning'], '██████████░░░░░░░░░░ 50 %, about 8 s left; 9 scored turns wait, 7 more for a batch')
  equal(rows['Services'], 'behind: trainer 13 s; up to date: gateway, scorer, projections; unknown: publisher')
  equal(rows['Not trained on'], 'stale 6, no next state 2')
  equal(rows['Errors'], 'bad\\x1b[2Jcode 1', 'no control character of others reaches the terminal')
  deepEqual(
    lines.filter((line) => line.startsWith('!')).map((line) => line.slice(2, 16).trim()),
    ['Gate', 'Services'],
  )
})

test('no line is wider than the terminal, and colours are the only difference that they make', () => {
  for (const columns of [20, 40, 59, 60, 80, 200]) {
    const lines = screenOf(READING, { columns, colour: false, note: 'The gateway does not answer.' })
    ok(Math.max(...lines.map((line) => line.length)) <= columns, `${columns} columns`)
    deepEqual(plain(screenOf(READING, { columns, colour: true, note: 'The gateway does not answer.' })), lines)
  }
  match(screenOf(READING, { columns: 80, colour: true }).join('\n'), /\p{Cc}\[31m/u)
})

test('of a gateway: --json is one reading, and without a terminal the screen is printed once', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  const env = { INSTAR_PORT: new URL(rig.url).port, INSTAR_DATA: folder() }
  const { code, json } = await instar(['top', '--json'], env)
  equal(code, 0)
  const reading = json as Reading
  deepEqual([reading.status, reading.head, reading.index.turns], ['ready', 0, 0])
  const { out, code: shown } = await instar(['top'], env)
  equal(shown, 0)
  match(out, /Serving +version 0; 0 requests running/)
  ok(!out.includes('\u001B'), 'no escape sequence')
})

test('in a terminal the screen is drawn over itself, says that the gateway is away, and leaves the terminal as it was', async (t) => {
  let answers = 0
  const server = createServer((_request, response) => {
    answers += 1
    if (answers === 3) response.destroy()
    else response.end(JSON.stringify(READING))
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const stop = new AbortController()
  let out = ''
  const env: Environment = {
    INSTAR_PORT: String((server.address() as AddressInfo).port),
    INSTAR_DATA: folder(),
    NO_COLOR: '1',
  }
  const code = await runCli(['top', '--every', '0.2'], {
    env,
    cwd: '/',
    out: (text) => {
      out += text
      if (out.includes('it is tried again') && answers >= 4) stop.abort()
    },
    err: (text) => (out += text),
    terminal: true,
    columns: () => 80,
    stop: stop.signal,
  })
  equal(code, 0)
  ok(out.startsWith('\u001B[?1049h\u001B[?25l\u001B[H') && out.endsWith('\u001B[?25h\u001B[?1049l'))
  ok(out.split('\u001B[H').length > 3)
  ok(!/\p{Cc}\[\d+m/u.test(out), 'NO_COLOR')
})

test('errors have the exit codes of other commands', async () => {
  const env = { INSTAR_PORT: '1', INSTAR_DATA: folder() }
  equal((await instar(['top'], env)).code, 1)
  equal((await instar(['top', '--every', '0'], env)).code, 2)
  equal((await instar(['top', 'x'], env)).code, 2)
  equal((await instar(['top', '--help'], env)).code, 0)
})
