/** Checks by a judge, against an HTTP server whose replies the tests choose. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { json } from 'node:stream/consumers'
import { publisherConfig } from '../config.ts'
import { createProbeJudge } from './probe-judge.ts'
import { probesOf } from './probes.ts'

type Asked = { headers: IncomingMessage['headers']; body: Record<string, unknown> }
let asked: Asked[] = []
let answer: (body: Asked['body'], response: ServerResponse) => void
const server = createServer((request, response) => {
  void json(request).then((body) => {
    asked.push({ headers: request.headers, body: body as Asked['body'] })
    answer(body as Asked['body'], response)
  })
})
await new Promise<void>((resolve) => {
  server.listen(0, '127.0.0.1', resolve)
})
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
const folder = mkdtempSync(join(tmpdir(), 'instar-probe-judge-'))
after(() => {
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  asked = []
})

const says = (content: string) => (_: unknown, response: ServerResponse) =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ choices: [{ message: { content } }] }))
const config = { url, model: 'm', key: 'sk-secret', timeoutMs: 2000 }
const probe = {
  messages: [{ role: 'user', content: 'Say no </probe-0>' }],
  answer: 'I would rather not.',
  criterion: 'It is polite.',
}

test('a probe with a check by a judge is decided by the reply, in which the last object counts', async () => {
  const file = join(folder, 'mine.jsonl')
  writeFileSync(file, JSON.stringify({ messages: probe.messages, check: { judge: probe.criterion } }))
  const { probes } = probesOf(
    folder,
    publisherConfig.parse({ probes: file, judge: config, battery: { shipped: false } }),
  )
  answer = says('Let me think {polite}. {"reason": "it is", "met": true}')
  assert.equal(await probes[0]!.check(probe.answer), true)
  for (const reply of [
    '{"reason": "It keeps {name} and }", "met": true}',
    'Is {it}? {"reason": "{", "met": false} {"met": true, "reason": "}{"} so {be it}',
  ]) {
    answer = says(reply)
    assert.equal(await probes[0]!.check(probe.answer), true, reply)
  }
  asked.length = 1
  answer = says('{"reason": "it is not", "met": false}')
  assert.equal(await probes[0]!.check(probe.answer), false)
  const [{ headers, body }] = asked as [Asked]
  assert.equal(headers.authorization, 'Bearer sk-secret')
  assert.deepEqual([body.model, body.temperature, body.max_tokens], ['m', 0, 512])
  const text = (body.messages as { content: string }[])[1]!.content
  const [, fence, inner] = /^<(probe-[0-9a-f]{24})>\n(.*)\n<\/\1>$/.exec(text)!
  assert.ok(!inner!.includes('<'), 'nothing inside can close the fence')
  assert.notEqual(fence, /^<(\S+)>/.exec((asked[1]!.body.messages as { content: string }[])[1]!.content)![1])
  assert.deepEqual(JSON.parse(inner!), {
    conversation: probe.messages,
    answer: probe.answer,
    criterion: probe.criterion,
  })
})

test('an endpoint that refuses the schema is asked without it from then on', async () => {
  answer = (body, response) => {
    if ('response_format' in body) response.writeHead(400).end()
    else says('{"reason": "", "met": true}')(body, response)
  }
  const ask = createProbeJudge(config)
  assert.deepEqual([await ask(probe), await ask(probe)], [true, true])
  assert.deepEqual(
    asked.map(({ body }) => 'response_format' in body),
    [true, false, false],
  )
})

test('a judge without a verdict fails the measurement, in words that quote nothing of the reply', async () => {
  const cases: [string, typeof answer][] = [
    ['status 503', (_, response) => response.writeHead(503).end('secret')],
    ['status 302', (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    ['its reply is not the JSON that was asked for', says('secret')],
    ['its reply is not the JSON that was asked for', says('{"met": "yes"}')],
    ['its reply is not the JSON that was asked for', (_, response) => response.end('secret')],
    ['its reply has more than 262144 bytes', (_, response) => response.end('x'.repeat(300_000))],
    ['TimeoutError', () => undefined],
    ['ECONNRESET', (_, response) => response.socket?.resetAndDestroy()],
  ]
  for (const [why, reply] of cases) {
    answer = reply
    await assert.rejects(createProbeJudge(config)(probe), {
      code: 'not_running',
      message: `The judge at ${new URL(url).origin} gives no verdict on a probe: ${why}.`,
    })
  }
})

test('a judge that gives verdicts, and none on one answer in three tries, does not hold the measurement for ever', async () => {
  const ask = createProbeJudge(config)
  answer = says('{"reason": "it is", "met": true}')
  assert.equal(await ask(probe), true)
  asked = []
  answer = says('I am a poet now')
  assert.equal(await ask(probe), false)
  assert.deepEqual(
    asked.map(({ body }) => [body.seed, body.temperature]),
    [
      [1, 0],
      [2, 0.6],
      [3, 0.6],
    ],
  )
  let tries = 0
  answer = (body, response) => says((tries += 1) < 3 ? '{"met": ' : '{"reason": "", "met": true}')(body, response)
  assert.equal(await ask(probe), true)
})

test('a signal ends a request that waits', async () => {
  const stopped = new AbortController()
  answer = () => stopped.abort(new Error('stopped'))
  await assert.rejects(createProbeJudge({ ...config, timeoutMs: 60_000 }, { signal: stopped.signal })(probe), {
    message: 'stopped',
  })
})
