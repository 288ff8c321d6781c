/** Answers of an engine that arrive at the same time count as memory of bodies, all together. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { textModel } from '@instar/engine'
import { USER } from '../kit/gateway.ts'
import { startRemoteRig, type RemoteRig } from './rig.ts'

const MIB = 1024 * 1024
const LIMIT = 16 * MIB
const PAD = 'x'.repeat(MIB)
const REQUESTS = 10

type Half = { response: ServerResponse; gone: boolean }

/** An engine that sends all but the end of an answer; `halves`: those answers, in order. */
const started = async (t: TestContext, head: string): Promise<{ rig: RemoteRig; halves: Half[] }> => {
  const halves: Half[] = []
  const server = createServer(async (request, response) => {
    for await (const _ of request) continue
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [{ id: 'm' }] }))
    const half = { response, gone: false }
    response.once('close', () => (half.gone = true))
    response.writeHead(200).write(`${head}${PAD}`)
    halves.push(half)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const rig = await startRemoteRig(`openai+http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, {
    model: textModel('policy'),
    settings: { bodyLimit: 65_536, bodiesLimit: LIMIT },
  })
  t.after(async () => {
    server.closeAllConnections()
    server.close()
    await rig.stop()
  })
  return { rig, halves }
}
const held = async (rig: RemoteRig): Promise<number> =>
  Number(/^instar_request_body_bytes (\S+)$/m.exec(await (await rig.fetch('/metrics')).text())![1])

for (const { what, stream, head, end, copies } of [
  {
    what: 'that are not streamed',
    stream: false,
    head: '{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"pad":"',
    end: '"}',
    copies: 3,
  },
  {
    what: 'whose events are long',
    stream: true,
    head: 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}],"pad":"',
    end: '"}\n\ndata: [DONE]\n\n',
    copies: 2,
  },
])
  test(`answers ${what} take no more memory together than bodies may, and one without room is refused`, async (t) => {
    const { rig, halves } = await started(t, head)
    const asked: Promise<[number, string]>[] = []
    for (let i = 0; i < REQUESTS; i += 1) {
      const before = await held(rig)
      asked.push(
        rig
          .fetch('/v1/chat/completions', { json: { model: 'policy', stream, messages: [USER('Hi')] } })
          .then(async (response): Promise<[number, string]> => [response.status, await response.text()]),
      )
      // The whole of it arrives, or it is refused.
      while (!(halves[i]?.gone === true || (await held(rig)) >= before + copies * MIB)) continue
      assert.ok((await held(rig)) <= LIMIT)
    }
    // An address alone may take seven eighths of the memory.
    const fit = Math.floor(((7 / 8) * LIMIT) / (copies * MIB + 1))
    assert.deepEqual(
      halves.map(({ gone }) => gone),
      halves.map((_, i) => i >= fit),
    )
    for (const { response, gone } of halves) if (!gone) response.end(end)
    const answers = await Promise.all(asked)
    for (const [i, [status, text]] of answers.entries())
      if (i < fit) assert.match(`${status} ${text}`, /^200 .*Hi/s)
      else assert.match(`${status} ${text}`, /^429 .*overloaded/s)
    while ((await held(rig)) > 0) continue
  })
