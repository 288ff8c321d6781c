/** Text from outside that a command or a service prints: no control character of it reaches the terminal. */
import { deepEqual, doesNotMatch, equal, match } from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts, type WeightsEvent } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { runService } from '@instar/process'
import { escapeControls, logEntry, printable, printableJson } from '@instar/process/printable'
import { folder, instar, type CliResult } from '../../test/kit/cli.ts'
import { lineStarted, sha } from '../../test/kit/projected-history.ts'

/** Clears the screen, by C0 and by C1, renames the window, turns text around, and begins a line. */
const EVIL = 'x\u001b[2J\u009b2J\u001b]0;title\u0007\u202egnp\u2066\u061c\r\nfaked: line'
const SAFE = 'x\\x1b[2J\\x9b2J\\x1b]0;title\\x07\\u202egnp\\u2066\\u061c\\x0d\\nfaked: line'
const CONTROLS = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u

const shown = ({ out, err }: CliResult, times: number): void => {
  doesNotMatch(out + err, CONTROLS)
  doesNotMatch(out + err, /^faked/m)
  equal((out + err).split(SAFE).length - 1, times, out + err)
}

test('escapes: a field is one line, printed text keeps its lines, an entry of a log begins no second one, JSON stays itself', () => {
  equal(escapeControls(`${EVIL}\t`), `${SAFE}\\t`)
  equal(printable('a\n\tb\u001b'), 'a\n\tb\\x1b')
  equal(logEntry('a\nb'), 'a\n    b')
  const value = { [EVIL]: [EVIL, 'Ännchen 🌿'] }
  doesNotMatch(printableJson(JSON.stringify(value)), CONTROLS)
  deepEqual(JSON.parse(printableJson(JSON.stringify(value))), value)
})

test('names of keys', async () => {
  const data = folder()
  mkdirSync(data, { recursive: true })
  const key = { sha256: sha('x'), scopes: ['admin'], created_at: '2026-01-01T00:00:00.000Z', expires_at: null }
  const limits = { requests_per_minute: null, concurrent: null }
  const keys = [
    { id: 'one', name: EVIL, ...key, ...limits },
    { id: 'two', name: EVIL, ...key, sha256: sha('y'), ...limits, created_by: 'one' },
  ]
  writeFileSync(join(data, 'keys.json'), JSON.stringify({ keys }))
  shown(await instar(['keys', 'list'], { INSTAR_DATA: data }), 2)
  const listed = await instar(['keys', 'list', '--json'], { INSTAR_DATA: data })
  doesNotMatch(listed.out, CONTROLS)
  equal((listed.json as { name: string }[])[0]!.name, EVIL)
  shown(await instar(['keys', 'revoke', 'one'], { INSTAR_DATA: data }), 2)
})

test("an adapter's base and folder, branches, reasons", async () => {
  const data = folder()
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  let prev = ''
  const add = async (event: WeightsEvent): Promise<void> => {
    const { id, ...record } = encodeEvent({ ...event, prev })
    await log.append([record])
    prev = id
  }
  const imported = {
    adapter: sha('a'),
    adapterBytes: 8,
    tensors: sha('t'),
    tensorCount: 2,
    config: '{}',
    rank: 8,
    alpha: 16,
    targets: [EVIL],
    baseModel: EVIL,
    source: EVIL,
  }
  const verdict = {
    prev: '',
    policy: 'policy',
    update: sha('u'),
    adapter: sha('v'),
    parent: 0,
    figures: { [EVIL]: 1 },
    at: Date.UTC(2026, 0, 1),
  }
  await add(lineStarted('policy', { imported }))
  await add({
    ...verdict,
    type: 'VersionPublished',
    number: 1,
    adapterBytes: 8,
    state: sha('s'),
    blobsAt: 1,
    why: 'promotion',
    source: { policy: EVIL, version: 3 },
  } as WeightsEvent)
  for (let n = 0; n < 3; n += 1)
    await add({ ...verdict, type: 'VersionRejected', reason: EVIL, evidence: [], parent: 1 })
  await log.close()
  const env = { INSTAR_DATA: data }
  shown(await instar(['show', '0'], env), 3)
  shown(await instar(['show', '1'], env), 2)
  shown(await instar(['versions'], env), 1)
  shown(await instar(['versions', '--rejected'], env), 3)
})

test("an error of a gateway's, of a judge's or of an engine's text", async () => {
  const server = createServer((_, response) =>
    response
      .writeHead(503, { 'content-type': 'application/json' })
      .end(JSON.stringify({ error: { code: 'no_line', message: EVIL } })),
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const env = { INSTAR_DATA: folder(), INSTAR_PORT: String((server.address() as AddressInfo).port) }
    const token = { INSTAR_ADMIN_TOKEN: 'a-token-of-sixteen-or-more-characters' }
    for (const command of ['thaw', 'top']) {
      const result = await instar([command], { ...env, ...token })
      doesNotMatch(result.out + result.err, CONTROLS)
      doesNotMatch(result.err, /^faked/m)
      match(result.err, /x\\x1b\[2J/)
    }
  } finally {
    server.close()
  }
})

test('the log of a service, and why it ended', async () => {
  let printed = ''
  const host = {
    env: { INSTAR_LOG: 'kafka://127.0.0.1:1', INSTAR_REGISTRY: EVIL },
    cwd: folder(),
    out: (text: string) => void (printed += text),
    err: (text: string) => void (printed += text),
    exit: () => undefined,
    stop: new AbortController().signal,
  }
  equal(await runService('scorer', host, () => Promise.reject(new Error('not reached'))), 1)
  doesNotMatch(printed, CONTROLS)
  doesNotMatch(printed, /^(?!\d{4}-|    )./m)
  match(printed, /x\\x1b\[2J/)
})
