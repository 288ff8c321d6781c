/** `instar up` as a process: what it says, the commands beside it, how it stops, that it goes on where it was. */
import { setTimeout as pause } from 'node:timers/promises'
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, cpSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { ROOT } from '../../../tools/tree.ts'
import { folder, instar } from '../../../test/kit/cli-world.ts'

/** Takes a running process the right to let a file grow. */
const prlimit = spawnSync('prlimit', ['--version']).status === 0

type Ready = { url: string; data: string; psql: string; engine: string; version: number; frozen: boolean }
type Up = {
  child: ChildProcess
  ready: Ready
  env: Record<string, string>
  ended: Promise<unknown[]>
  err: () => string
}

const left: ChildProcess[] = []
after(() => left.forEach((child) => child.kill('SIGKILL')))

/** In a process group of its own, as a shell would start it. */
const up = async (data: string, args: readonly string[] = []): Promise<Up> => {
  const child = spawn(
    process.execPath,
    [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data, '--json', ...args],
    { detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  left.push(child)
  const ended = once(child, 'exit')
  let out = ''
  let err = ''
  child.stderr!.on('data', (text: Buffer) => (err += text.toString()))
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.stdout!.on('data', (text: Buffer) => {
      out += text.toString()
      const line = out.split('\n').find((one) => one.startsWith('{"url"'))
      if (line) resolve(JSON.parse(line) as Ready)
    })
    void ended.then(() => reject(new Error(`ended before it was up: ${out}${err}`)))
  })
  return { child, ready, env: { INSTAR_DATA: data, INSTAR_PORT: new URL(ready.url).port }, ended, err: () => err }
}

const say = async (url: string, session: string, content: string): Promise<Response> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session },
    body: JSON.stringify({ model: 'policy', max_tokens: 16, messages: [{ role: 'user', content }] }),
  })
  equal(response.status, 200, await response.clone().text())
  return response
}

const turns = async (env: Record<string, string>): Promise<unknown> =>
  (await instar(['sql', 'select session_id, status from turns order by started_at', '--json'], env)).json

/** What is measured, once it has the line: the trainer, in a thread of its own, reads of a rollback a moment after the gateway. */
const metricsWith = async (url: string, line: string): Promise<string> => {
  for (const until = Date.now() + 10_000; ;) {
    const told = await (await fetch(`${url}/metrics`)).text()
    if (told.split('\n').includes(line) || Date.now() > until) return told
    await pause(20)
  }
}

describe('instar up', () => {
  test('up refuses a model that is not the base of the versions before it listens, and doctor and replay report the same', async () => {
    const data = folder()
    const other = join(folder(), 'other')
    cpSync(join(ROOT, 'models/tiny'), other, { recursive: true })
    appendFileSync(join(other, 'config.json'), '\n')
    const first = await up(data)
    first.child.kill('SIGTERM')
    await first.ended
    const words =
      /other_base: The versions on this log were made of tiny \(sha256 [0-9a-f]{12} over config, tokenizer, chat template and weights\); the model that is given is other \(/
    await rejects(up(data, ['--model', other]), words)
    const doctor = await instar(['doctor', '--json'], { INSTAR_DATA: data, INSTAR_MODEL: other, INSTAR_PORT: '9' })
    match(
      (doctor.json as { checks: { name: string; found: string }[] }).checks.find(({ name }) => name === 'model')!.found,
      words,
    )
    match(
      (await instar(['replay', '--branch', 'b'], { INSTAR_DATA: data, INSTAR_MODEL: other, INSTAR_PORT: '9' })).err,
      words,
    )
    const again = await up(data)
    again.child.kill('SIGTERM')
    equal((await again.ended)[0], 0)
  })

  test('up serves requests and commands, stops on SIGTERM to its group, and continues after a restart', async () => {
    const data = folder()
    const first = await up(data)
    const reply = await say(first.ready.url, 'one', 'Hello')
    equal(reply.headers.get('x-instar-version'), '0')

    const versions = (await instar(['versions', '--json'], first.env)).json as { version: number; status: string }[]
    deepEqual(
      versions.map(({ version, status }) => [version, status]),
      [[0, 'serving']],
    )
    const rolled = await instar(['rollback', '0', '--why', 'a test', '--json'], first.env)
    deepEqual([rolled.code, rolled.json], [0, { head: 0, version: 0, frozen: true }])
    equal((await instar(['rollback', '7', '--json'], first.env)).code, 1)
    const told = await metricsWith(first.ready.url, 'instar_trainer_waits{for="frozen"} 1')
    for (const line of [
      'instar_turns_total{status="complete",kind="main",label_source="header",trainable="yes",reason="none"} 1',
      'instar_trainer_waits{for="frozen"} 1',
      'instar_publisher_waits{for="updates"} 1',
      'instar_scorer_judging 0',
      'instar_learning_frozen 1',
      'instar_projections_behind_partitions{topic="blobs"}',
      'nodejs_eventloop_lag_p99_seconds ',
      'instar_log_append_duration_seconds_count{topic="weights"} ',
    ]) {
      equal(
        told.split('\n').some((one) => one.startsWith(line)),
        !line.includes('blobs'),
        `${line}\n${told}`,
      )
    }
    const thawed = await instar(['thaw', '--json'], first.env)
    deepEqual([thawed.code, thawed.json], [0, { head: 0, version: 0, frozen: false }])
    equal(
      ((await instar(['promote', 'nothing', '--json'], first.env)).json as { error: { code: string } }).error.code,
      'unknown_branch',
    )
    const doctor = await instar(['doctor', '--json'], first.env)
    equal(doctor.code, 0, doctor.out)

    const second = await instar(['up', '--data', data, '--port', '0', '--json'], {})
    equal((second.json as { error: { code: string } }).error.code, 'data_in_use')

    process.kill(-first.child.pid!, 'SIGTERM')
    deepEqual(await first.ended, [0, null])
    equal(first.err().match(/stopping/g)?.length, 1)
    deepEqual(await turns(first.env), [{ session_id: 'one', status: 'complete' }])

    const again = await up(data)
    await say(again.ready.url, 'two', 'Hello again')
    process.kill(again.child.pid!, 'SIGKILL')
    deepEqual(await again.ended, [null, 'SIGKILL'])
    const third = await up(data)
    deepEqual(((await instar(['versions', '--json'], third.env)).json as unknown[]).length, 1)
    await say(third.ready.url, 'three', 'Still there?')
    process.kill(third.child.pid!, 'SIGINT')
    deepEqual(await third.ended, [0, null])
    deepEqual(
      await turns(third.env),
      ['one', 'two', 'three'].map((session_id) => ({ session_id, status: 'complete' })),
    )
  })

  test('up exits with the reason when its log cannot be written', { skip: !prlimit }, async () => {
    const { child, ready, ended, err } = await up(folder())
    const stays = `--fsize=${statSync(join(ready.data, 'log', 'log.db-wal')).size}`
    equal(spawnSync('prlimit', ['--pid', String(child.pid), stays]).status, 0)
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

  test('up refuses a missing model and an open bind before it starts anything', async () => {
    const data = folder()
    const absent = await instar(['up', '--data', data, '--model', './absent', '--json'], {})
    deepEqual([absent.code, (absent.json as { error: { code: string } }).error.code], [1, 'bad_checkpoint'])
    const open = await instar(['up', '--data', data, '--host', '0.0.0.0', '--port', '0', '--json'], {})
    deepEqual([open.code, (open.json as { error: { code: string } }).error.code], [1, 'open_bind'])
  })

  test('up on a terminal prints its addresses, its folder and its model', async () => {
    const data = folder()
    const child = spawn(process.execPath, [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    left.push(child)
    const ended = once(child, 'exit')
    let out = ''
    for await (const text of child.stdout as AsyncIterable<Buffer>) {
      out += text.toString()
      if (out.includes('Ctrl-C')) break
    }
    child.kill('SIGTERM')
    deepEqual(await ended, [0, null])
    match(out, /gateway +http:\/\/127\.0\.0\.1:\d+\/v1/)
    match(out, /model +.*small model.*does not drive a\s+coding agent/s)
    match(out, /look +psql "/)
    match(out, new RegExp(`data +${data}`))
    match(out, /import OpenAI from 'openai'/)
  })
})
