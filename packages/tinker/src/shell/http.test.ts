import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { LONGEST_WAIT_MS } from '../core/polling.ts'
import { TinkerHttp } from './http.ts'

test('what a server says of a wait has a limit', async (t) => {
  const said: [header: string, ms: number | null][] = [
    ['2', 2000],
    ['0', 0],
    ['1e300', LONGEST_WAIT_MS],
    ['Infinity', LONGEST_WAIT_MS],
    ['-100', null],
    ['soon', null],
  ]
  let header = ''
  const server = createServer((_, response) => response.writeHead(429, { 'retry-after': header }).end()).listen(0)
  await once(server, 'listening')
  const limits = { connectMs: 5000, answerMs: 5000, pollMs: 5000, archiveMs: 5000 }
  const http = new TinkerHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, null, limits)
  t.after(async () => {
    await http.close()
    server.close()
  })
  for (const [text, ms] of said) {
    header = text
    assert.equal((await http.send({ method: 'GET', path: '/' })).retryAfterMs, ms, text)
  }
})
