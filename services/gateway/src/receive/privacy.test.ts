/** Standard output and standard error of a gateway: enough to find a fault, and no text of a person. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { COMMANDING, USER } from '../../../../test/kit/gateway.ts'

const SECRET = 'marmalade-4711'

type Told = { level: number; code?: string; requestId?: string; trace?: { name: string; at: string[] }[] }

test(
  'a conversation with each kind of fault prints none of its text, and each internal defect prints code, request and place',
  { timeout: 60_000 },
  async (t) => {
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL('../../../../test/kit/processes/faulty-gateway.ts', import.meta.url))],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
      },
    )
    t.after(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let [out, err] = ['', '']
    child.stderr.on('data', (piece: Buffer) => {
      err += piece.toString()
    })
    const started = Promise.withResolvers<string>()
    child.stdout.on('data', (piece: Buffer) => {
      out += piece.toString()
      if (out.includes('\n')) started.resolve(out.split('\n')[0]!)
    })
    void exited.then(() => started.reject(new Error(`ended before it was up: ${err}`)))
    const url = await started.promise
    const post = async (path: string, body: unknown): Promise<{ status: number; request: string; text: string }> => {
      const response = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { ...COMMANDING, 'x-session-id': SECRET },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      return { status: response.status, request: response.headers.get('x-request-id')!, text: await response.text() }
    }
    const say = (content: string, more: object = {}) =>
      post('/v1/chat/completions', { model: 'policy', messages: [USER(`${SECRET} ${content}`)], ...more })

    const fine = await say('hello')
    assert.equal(fine.status, 200)
    assert.ok(fine.text.includes(SECRET), 'the secret is in the conversation')
    for (const [status, answer] of [
      [200, await say('and again', { stream: true })],
      [400, await post('/v1/chat/completions', `{"messages": ${SECRET}`)],
      [400, await say('x', { stream: SECRET })],
      [404, await post(`/v1/${SECRET}`, {})],
      [404, await say('x', { model: SECRET })],
      [413, await say('x'.repeat(60_000))],
      [400, await say('word '.repeat(5000))],
      [404, await post('/v1/feedback', { session_id: 'none', value: 1, comment: SECRET })],
      [200, await post('/v1/feedback', { session_id: SECRET, value: 1, comment: SECRET })],
    ] as const)
      assert.equal(answer.status, status, answer.text)
    const gone = new AbortController()
    const cut = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'policy', stream: true, messages: [USER(SECRET)] }),
      signal: gone.signal,
    })
    assert.equal(cut.status, 200)
    gone.abort()

    const defects = [
      await say('fail at once'),
      await say('fail later'),
      await say('fail later', { stream: true }),
      await post('/admin/promote', { branch: SECRET }),
      await post('/admin/replay', { branch: SECRET }),
    ]
    assert.deepEqual(
      defects.map(({ status }) => status),
      [500, 500, 200, 500, 200],
    )
    for (const { text } of defects) assert.match(text, /"code":"internal"/)
    child.stdin.end('stop\n')
    assert.deepEqual(await exited, [0, null])

    for (const said of [out, err]) assert.ok(!said.includes(SECRET) && !said.includes('anybody expected'), said)
    assert.equal(out, `${url}\n`)
    const told = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Told)
    assert.deepEqual(
      told.map(({ code, requestId }) => [code, requestId]),
      defects.map(({ request }) => ['internal', request]),
    )
    for (const { trace } of told) {
      assert.deepEqual(
        trace!.map(({ name }) => name),
        ['TypeError', 'Error'],
      )
      assert.match(trace![0]!.at[0]!, /^at fail \(.*faulty-gateway\.ts:\d+:\d+\)$/)
    }
  },
)
