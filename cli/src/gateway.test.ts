/** Commands against a server that a test scripts: silence, connections that end, what a replay does then. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSocket, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { readSettings } from '@instar/process'
import { looksOf } from './diagnosis.ts'
import { ask, askLines } from './gateway.ts'
import { folder, instar } from '../../test/kit/cli-world.ts'

type Place = { host: string; port: number }

const listen = async (t: TestContext, server: Server): Promise<Place> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

const serve = (
  t: TestContext,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Place> => {
  const server = createServer(handle)
  t.after(() => server.closeAllConnections())
  return listen(t, server)
}

const never = new AbortController().signal
const collect = async (said: AsyncIterable<unknown>): Promise<unknown[]> => {
  const values: unknown[] = []
  for await (const value of said) values.push(value)
  return values
}

describe('requests to a gateway', () => {
  test('an unused port or another server is not_running; a silent or closing server is no_reply', async (t) => {
    const code =
      (name: string) =>
      (error: unknown): boolean =>
        (error as { code: string }).code === name
    await rejects(ask({ host: '127.0.0.1', port: 9 }, '/admin/status'), code('not_running'))
    await rejects(ask(await serve(t, (_, response) => response.end('hello')), '/admin/status', {}), code('not_running'))
    await rejects(
      ask(
        await listen(
          t,
          createSocket((socket) => socket.end('220 mail.example ESMTP\r\n')),
        ),
        '/admin/status',
      ),
      code('not_running'),
    )
    await rejects(ask(await serve(t, () => undefined), '/admin/status', undefined, { timeoutMs: 30 }), code('no_reply'))
    await rejects(
      ask(await serve(t, (_, response) => response.write('{')), '/admin/status', undefined, { timeoutMs: 30 }),
      code('no_reply'),
    )
    await rejects(ask(await serve(t, (request) => request.socket.destroy()), '/admin/status'), code('no_reply'))
    await rejects(
      collect(askLines(await serve(t, () => undefined), '/admin/replay', {}, never, { silenceMs: 30 })),
      code('no_reply'),
    )
    await rejects(
      collect(
        askLines(await serve(t, (_, response) => response.write('{"progress":1}\n')), '/admin/replay', {}, never, {
          silenceMs: 30,
        }),
      ),
      code('no_reply'),
    )
    await rejects(
      collect(
        askLines(
          await serve(t, (request, response) => response.write('{"progress":1}\n', () => request.socket.destroy())),
          '/admin/replay',
          {},
          never,
        ),
      ),
      code('no_reply'),
    )
  })

  test('heartbeats extend the time limit of a long command and are not part of its answer', async (t) => {
    const place = await serve(t, (request, response) => {
      equal(request.headers.accept, 'application/x-ndjson')
      let beats = 0
      const timer = setInterval(() => {
        if ((beats += 1) <= 12) response.write('{"heartbeat":true}\n')
        else response.end('{"report":1}\n')
        if (beats > 12) clearInterval(timer)
      }, 50)
    })
    const from = performance.now()
    deepEqual(await collect(askLines(place, '/admin/replay', {}, never, { silenceMs: 400 })), [{ report: 1 }])
    ok(performance.now() - from > 500, 'it took longer than the silence')
  })

  test('a caller that stops listening closes the connection', async (t) => {
    const closed = Promise.withResolvers<void>()
    const stop = new AbortController()
    const place = await serve(t, (_, response) => {
      response.once('close', closed.resolve)
      response.write('{"progress":1}\n')
    })
    const said = askLines(place, '/admin/replay', {}, stop.signal)
    deepEqual((await said.next()).value, { progress: 1 })
    stop.abort()
    await rejects(said.next(), { code: 'aborted' })
    await closed.promise
  })
})

const env = ({ port }: Place): Record<string, string> => ({ INSTAR_DATA: folder(), INSTAR_PORT: String(port) })
const json = (response: ServerResponse, value: unknown): unknown =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(value))

describe('commands and their answers', () => {
  test('a replay whose gateway closes the connection does not open the log itself', async (t) => {
    const given = env(await serve(t, (request) => request.socket.destroy()))
    await (await openEmbeddedLog({ folder: join(given.INSTAR_DATA!, 'log'), schemas: schemaTexts() })).close()
    const { code, json: said } = await instar(['replay', '--branch', 'b', '--json'], given)
    deepEqual([code, (said as { error: { code: string } }).error.code], [1, 'no_reply'])
  })

  test('a promotion waits for its verdict while heartbeats arrive', async (t) => {
    const answers = (verdict: object) =>
      serve(t, (_, response) => response.end(`{"heartbeat":true}\n${JSON.stringify(verdict)}\n`))
    const taken = await instar(
      ['promote', 'b', '--json'],
      env(await answers({ accepted: true, version: 3, head: 3, frozen: false })),
    )
    deepEqual([taken.code, (taken.json as { version: number }).version], [0, 3])
    equal(
      (
        await instar(
          ['promote', 'b', '--json'],
          env(await answers({ accepted: false, reason: 'content', version: 2, head: 2, frozen: false })),
        )
      ).code,
      1,
    )
    equal(
      (
        await instar(
          ['promote', 'b', '--json'],
          env(await answers({ error: { code: 'unknown_branch', message: 'none' } })),
        )
      ).code,
      1,
    )
  })

  test('a rollback that is on the log succeeds, also when another version is published before the answer', async (t) => {
    const place = await serve(t, (_, response) => json(response, { head: 5, version: 5, frozen: false }))
    const { code, out } = await instar(['rollback', '3', '--keep-learning'], env(place))
    equal(code, 0)
    match(out, /^moved to version 3; since then version 5 serves; learning goes on/)
    const frozen = await instar(
      ['rollback', '3'],
      env(await serve(t, (_, response) => json(response, { head: 3, version: 3, frozen: true }))),
    )
    deepEqual([frozen.code, frozen.out.startsWith('version 3 serves; learning is frozen')], [0, true])
  })

  test('every gateway behind the name gets the key', async (t) => {
    const shown: [string | undefined, string | undefined][] = []
    const place = await serve(t, (request, response) => {
      shown.push([request.url, request.headers.authorization])
      json(response, { head: 3, version: 3, frozen: true })
    })
    equal((await instar(['rollback', '3'], { ...env(place), INSTAR_KEY: 'sk-a' })).code, 0)
    deepEqual(shown, [
      ['/admin/rollback', 'Bearer sk-a'],
      ['/admin/served', 'Bearer sk-a'],
    ])
  })

  test('doctor reports damage in the middle of a log as a fault of the disk', async () => {
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
    await rejects(
      looksOf(config)
        .looks.find(({ name }) => name === 'log')!
        .of(config),
      { code: 'data_unreadable', message: /malformed\. Restore it from its copy/ },
    )
  })

  test('doctor accepts a judge without a list of models and reports one that is unreachable or refuses the key', async (t) => {
    const status = (code: number) => serve(t, (_, response) => response.writeHead(code).end('{"data":[]}'))
    const given = ({ port }: Place): Record<string, string> => ({
      ...env({ host: '', port: 9 }),
      INSTAR_JUDGE_URL: `http://127.0.0.1:${port}/v1`,
      INSTAR_JUDGE_MODEL: 'some-judge',
    })
    const judge = async (place: Place) => {
      const config = readSettings(given(place), '/')
      return looksOf(config)
        .looks.find(({ name }) => name === 'judge')!
        .of(config)
    }
    match((await judge(await status(200)))[0]!.found, /^some-judge at http/)
    await rejects(judge(await status(401)), { code: 'invalid_api_key' })
    await rejects(judge({ host: '', port: 9 }), { code: 'not_running' })
    const { code, json: said, err } = await instar(['doctor', '--json'], given(await status(404)))
    equal(code, 0, err)
    const found = (said as { checks: { name: string; ok: boolean; unsure: boolean; found: string }[] }).checks.find(
      ({ name }) => name === 'judge',
    )!
    deepEqual([found.ok, found.unsure], [true, true])
    match(found.found, /lists no models \(HTTP 404\)/)
  })
})
