/** The admin client and the commands that use it, against a scripted server: silence, closed connections, verdicts. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSocket, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { readSettings } from '@instar/process'
import { requestAdmin, streamAdmin } from './admin-client.ts'
import { judgeCheck, logCheck } from './doctor/local-checks.ts'
import { folder, instar } from '../../test/kit/cli.ts'

type Address = { host: string; port: number }

const listen = async (t: TestContext, server: Server): Promise<Address> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

const serve = (
  t: TestContext,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Address> => {
  const server = createServer(handle)
  t.after(() => server.closeAllConnections())
  return listen(t, server)
}

const neverAborted = new AbortController().signal
const collect = async (lines: AsyncIterable<unknown>): Promise<unknown[]> => {
  const values: unknown[] = []
  for await (const line of lines) values.push(line)
  return values
}

describe('the admin client', () => {
  test('a failed connection and a server that is no gateway are not_running; silence and a closed connection are no_reply', async (t) => {
    const code =
      (name: string) =>
      (error: unknown): boolean =>
        (error as { code: string }).code === name
    await rejects(requestAdmin({ host: '127.0.0.1', port: 9 }, '/admin/status'), code('not_running'))
    await rejects(
      requestAdmin(await serve(t, (_, response) => response.end('hello')), '/admin/status', {}),
      code('not_running'),
    )
    await rejects(
      requestAdmin(
        await listen(
          t,
          createSocket((socket) => socket.end('220 mail.example ESMTP\r\n')),
        ),
        '/admin/status',
      ),
      code('not_running'),
    )
    await rejects(
      requestAdmin(await serve(t, () => undefined), '/admin/status', undefined, { timeoutMs: 30 }),
      code('no_reply'),
    )
    await rejects(
      requestAdmin(await serve(t, (_, response) => response.write('{')), '/admin/status', undefined, { timeoutMs: 30 }),
      code('no_reply'),
    )
    await rejects(
      requestAdmin(await serve(t, (request) => request.socket.destroy()), '/admin/status'),
      code('no_reply'),
    )
    await rejects(
      collect(streamAdmin(await serve(t, () => undefined), '/admin/replay', {}, neverAborted, { silenceMs: 30 })),
      code('no_reply'),
    )
    await rejects(
      collect(
        streamAdmin(
          await serve(t, (_, response) => response.write('{"progress":1}\n')),
          '/admin/replay',
          {},
          neverAborted,
          {
            silenceMs: 30,
          },
        ),
      ),
      code('no_reply'),
    )
    await rejects(
      collect(
        streamAdmin(
          await serve(t, (request, response) => response.write('{"progress":1}\n', () => request.socket.destroy())),
          '/admin/replay',
          {},
          neverAborted,
        ),
      ),
      code('no_reply'),
    )
  })

  test('heartbeats prevent the timeout of a long command and are not part of its reply', async (t) => {
    const address = await serve(t, (request, response) => {
      equal(request.headers.accept, 'application/x-ndjson')
      let beats = 0
      const timer = setInterval(() => {
        if ((beats += 1) <= 12) response.write('{"heartbeat":true}\n')
        else response.end('{"report":1}\n')
        if (beats > 12) clearInterval(timer)
      }, 50)
    })
    const startedAt = performance.now()
    deepEqual(await collect(streamAdmin(address, '/admin/replay', {}, neverAborted, { silenceMs: 400 })), [
      { report: 1 },
    ])
    ok(performance.now() - startedAt > 500, 'the command took longer than silenceMs')
  })

  test('an aborted command closes its connection', async (t) => {
    const closed = Promise.withResolvers<void>()
    const stop = new AbortController()
    const address = await serve(t, (_, response) => {
      response.once('close', closed.resolve)
      response.write('{"progress":1}\n')
    })
    const lines = streamAdmin(address, '/admin/replay', {}, stop.signal)
    deepEqual((await lines.next()).value, { progress: 1 })
    stop.abort()
    await rejects(lines.next(), { code: 'aborted' })
    await closed.promise
  })
})

const env = ({ port }: Address): Record<string, string> => ({ INSTAR_DATA: folder(), INSTAR_PORT: String(port) })
const json = (response: ServerResponse, value: unknown): unknown =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(value))

describe('commands with a scripted gateway', () => {
  test('a replay whose connection is closed does not open the log itself', async (t) => {
    const environment = env(await serve(t, (request) => request.socket.destroy()))
    await (await openEmbeddedLog({ folder: join(environment.INSTAR_DATA!, 'log'), schemas: schemaTexts() })).close()
    const { code, json: result } = await instar(['replay', '--branch', 'b', '--json'], environment)
    deepEqual([code, (result as { error: { code: string } }).error.code], [1, 'no_reply'])
  })

  test('a promotion waits for its verdict through heartbeats', async (t) => {
    const gateway = (verdict: object) =>
      serve(t, (_, response) => response.end(`{"heartbeat":true}\n${JSON.stringify(verdict)}\n`))
    const accepted = await instar(
      ['promote', 'b', '--json'],
      env(await gateway({ accepted: true, version: 3, head: 3, frozen: false })),
    )
    deepEqual([accepted.code, (accepted.json as { version: number }).version], [0, 3])
    equal(
      (
        await instar(
          ['promote', 'b', '--json'],
          env(await gateway({ accepted: false, reason: 'content', version: 2, head: 2, frozen: false })),
        )
      ).code,
      1,
    )
    equal(
      (
        await instar(
          ['promote', 'b', '--json'],
          env(await gateway({ error: { code: 'unknown_branch', message: 'none' } })),
        )
      ).code,
      1,
    )
  })

  test('a rollback succeeds even if a newer version was published before its reply', async (t) => {
    const address = await serve(t, (_, response) => json(response, { head: 5, version: 5, frozen: false }))
    const { code, out } = await instar(['rollback', '3', '--keep-learning'], env(address))
    equal(code, 0)
    match(out, /^moved to version 3; since then version 5 serves; learning continues/)
    const frozen = await instar(
      ['rollback', '3'],
      env(await serve(t, (_, response) => json(response, { head: 3, version: 3, frozen: true }))),
    )
    deepEqual([frozen.code, frozen.out.startsWith('version 3 serves; learning is frozen')], [0, true])
  })

  test('the key is sent to every gateway behind the name', async (t) => {
    const requests: [string | undefined, string | undefined][] = []
    const address = await serve(t, (request, response) => {
      requests.push([request.url, request.headers.authorization])
      json(response, { head: 3, version: 3, frozen: true })
    })
    equal((await instar(['rollback', '3'], { ...env(address), INSTAR_KEY: 'sk-a' })).code, 0)
    deepEqual(requests, [
      ['/admin/rollback', 'Bearer sk-a'],
      ['/admin/served', 'Bearer sk-a'],
    ])
  })

  test('doctor: a log that is damaged in the middle is data_unreadable, not internal', async () => {
    const data = folder()
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    await log.append(
      Array.from({ length: 16 }, (_, i) => ({
        topic: 'blobs',
        key: `k${i}`,
        schema: 'BlobChunk.v1',
        payload: Buffer.alloc(100_000, i),
        timestamp: i,
      })),
    )
    await log.close()
    const file = join(data, 'log', 'log.db')
    const bytes = readFileSync(file)
    writeFileSync(file, bytes.fill(0xfe, Math.floor(bytes.length / 2)))
    const config = readSettings({ INSTAR_DATA: data }, '/')
    await rejects(logCheck.run(config), {
      code: 'data_unreadable',
      message: /malformed; restore it from a copy/,
    })
  })

  test('doctor: a judge without a list of models is unsure; one that does not answer or refuses the key is an error', async (t) => {
    const status = (code: number) => serve(t, (_, response) => response.writeHead(code).end('{"data":[]}'))
    const judgeEnv = ({ port }: Address): Record<string, string> => ({
      ...env({ host: '', port: 9 }),
      INSTAR_JUDGE_URL: `http://127.0.0.1:${port}/v1`,
      INSTAR_JUDGE_MODEL: 'some-judge',
    })
    const judge = async (address: Address) => {
      const config = readSettings(judgeEnv(address), '/')
      return judgeCheck.run(config)
    }
    match((await judge(await status(200)))[0]!.found, /^some-judge at http/)
    await rejects(judge(await status(401)), { code: 'invalid_api_key' })
    await rejects(judge({ host: '', port: 9 }), { code: 'not_running' })
    const { code, json: result, err } = await instar(['doctor', '--json'], judgeEnv(await status(404)))
    equal(code, 0, err)
    const found = (result as { checks: { name: string; ok: boolean; unsure: boolean; found: string }[] }).checks.find(
      ({ name }) => name === 'judge',
    )!
    deepEqual([found.ok, found.unsure], [true, true])
    match(found.found, /lists no models \(HTTP 404\)/)
  })
})
