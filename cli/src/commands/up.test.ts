/** `instar up` as a process: its output, other commands while it runs, how it stops and starts restarted. */
import { setTimeout as pause } from 'node:timers/promises'
import { deepEqual, equal, match, rejects } from 'node:assert/strict'
import { appendFileSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ROOT } from '../../../tools/tree.ts'
import { folder, instar } from '../../../test/kit/cli.ts'
import { up } from '../../../test/kit/up.ts'

const ask = async (url: string, session: string, content: string): Promise<Response> => {
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

/** Polls /metrics until it holds the line, for 10 s at most: the trainer reads a rollback after the gateway. */
const metricsWith = async (url: string, line: string): Promise<string> => {
  for (const deadline = Date.now() + 10_000; ;) {
    const metrics = await (await fetch(`${url}/metrics`)).text()
    if (metrics.split('\n').includes(line) || Date.now() > deadline) return metrics
    await pause(20)
  }
}

describe('instar up', () => {
  test('another base model than that of the versions on the log is refused by up, doctor and replay', async () => {
    const data = folder()
    const other = join(folder(), 'other')
    cpSync(join(ROOT, 'models/tiny'), other, { recursive: true })
    appendFileSync(join(other, 'config.json'), '\n')
    const first = await up(data)
    first.child.kill('SIGTERM')
    await first.ended
    const message =
      /other_base: The versions on this log are based on tiny \(sha256 [0-9a-f]{12} of configuration, tokenizer, chat template and weights\); the configured model is other \(/
    await rejects(up(data, ['--model', other]), message)
    const doctor = await instar(['doctor', '--json'], { INSTAR_DATA: data, INSTAR_MODEL: other, INSTAR_PORT: '9' })
    match(
      (doctor.json as { checks: { name: string; found: string }[] }).checks.find(({ name }) => name === 'model')!.found,
      message,
    )
    match(
      (await instar(['replay', '--branch', 'b'], { INSTAR_DATA: data, INSTAR_MODEL: other, INSTAR_PORT: '9' })).err,
      message,
    )
    const restarted = await up(data)
    restarted.child.kill('SIGTERM')
    equal((await restarted.ended)[0], 0)
  })

  test('serves requests and commands, stops on SIGTERM to its process group, continues after a restart and after SIGKILL', async () => {
    const data = folder()
    const first = await up(data)
    const reply = await ask(first.ready.url, 'one', 'Hello')
    equal(reply.headers.get('x-instar-version'), '0')

    const versions = (await instar(['versions', '--json'], first.env)).json as { version: number; status: string }[]
    deepEqual(
      versions.map(({ version, status }) => [version, status]),
      [[0, 'serving']],
    )
    const rolled = await instar(['rollback', '0', '--why', 'a test', '--json'], first.env)
    deepEqual([rolled.code, rolled.json], [0, { head: 0, version: 0, frozen: true }])
    equal((await instar(['rollback', '7', '--json'], first.env)).code, 1)
    const metrics = await metricsWith(first.ready.url, 'instar_trainer_waits{for="frozen"} 1')
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
        metrics.split('\n').some((one) => one.startsWith(line)),
        !line.includes('blobs'),
        `${line}\n${metrics}`,
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

    const restarted = await up(data)
    await ask(restarted.ready.url, 'two', 'Hello again')
    process.kill(restarted.child.pid!, 'SIGKILL')
    deepEqual(await restarted.ended, [null, 'SIGKILL'])
    const third = await up(data)
    deepEqual(((await instar(['versions', '--json'], third.env)).json as unknown[]).length, 1)
    await ask(third.ready.url, 'three', 'Still there?')
    process.kill(third.child.pid!, 'SIGINT')
    deepEqual(await third.ended, [0, null])
    deepEqual(
      await turns(third.env),
      ['one', 'two', 'three'].map((session_id) => ({ session_id, status: 'complete' })),
    )
  })
})
