/** A settings file on a live line: what it changes, what the log says of it, and what verify and replay make of it. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { ROOT } from '../../tools/tree.ts'
import { folder, instar } from '../kit/cli.ts'

const children: ChildProcess[] = []
after(() => children.forEach((child) => child.kill('SIGKILL')))

type Up = { url: string; env: Record<string, string>; verdict: () => Promise<string>; stop: () => Promise<void> }

/** `npm start` in the folder. `verdict`: the next line of the console about an update. */
const up = async (cwd: string): Promise<Up> => {
  const data = join(cwd, 'data')
  const child = spawn(process.execPath, [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data, '--json'], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  const ended = once(child, 'exit')
  const verdicts: string[] = []
  let told = Promise.withResolvers<void>()
  let err = ''
  createInterface({ input: child.stderr! }).on('line', (line) => {
    err += `${line}\n`
    if (!/^version \d+ serves|^an update was/.test(line)) return
    verdicts.push(line)
    told.resolve()
    told = Promise.withResolvers()
  })
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      if (line.startsWith('{"url"')) resolve((JSON.parse(line) as { url: string }).url)
    })
    void ended.then(() => reject(new Error(`the process ended before the pipeline ran: ${err}`)))
  })
  return {
    url,
    env: { INSTAR_DATA: data, INSTAR_PORT: new URL(url).port },
    async verdict() {
      while (verdicts.length === 0) await told.promise
      return verdicts.shift()!
    },
    async stop() {
      child.kill('SIGTERM')
      deepEqual(await ended, [0, null], err)
    },
  }
}

const post = async (url: string, path: string, body: unknown): Promise<Record<string, unknown>> => {
  const response = await fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  equal(response.status, 200, await response.clone().text())
  return (await response.json()) as Record<string, unknown>
}

/** Answers with feedback, good and bad in turn, so that each batch has a signal. */
const converse = async (url: string, from: number, count: number): Promise<void> => {
  for (let i = from; i < from + count; i += 1) {
    const content = `What is ${i} plus 5?`
    const { id } = await post(url, 'chat/completions', {
      model: 'policy',
      max_tokens: 12,
      messages: [{ role: 'user', content }],
    })
    await post(url, 'feedback', { turn_id: id, value: i % 2 === 0, comment: 'Answer in plain text.' })
  }
}

test('a file sets batch and loss of a live line; changes are on the log, and verify repeats what was recorded', async () => {
  const cwd = folder()
  const write = (settings: unknown): void => writeFileSync(join(cwd, 'instar.json'), JSON.stringify(settings))
  const run = async (args: string[], env: Record<string, string>): Promise<unknown> => {
    const { code, json, err } = await instar([...args, '--json'], env, cwd)
    equal(code, 0, err)
    return json
  }
  write({ training: { batchSize: 4, loss: 'binary', epochs: 1 }, gate: { klParent: 0.5, samples: 4 } })
  const first = await up(cwd)
  await converse(first.url, 0, 4)
  equal(await first.verdict(), 'version 1 serves')
  const versions = (await run(['versions'], first.env)) as { trained_turns: number; limits: Record<string, number> }[]
  deepEqual([versions[1]!.trained_turns, versions[1]!.limits.klParent, versions[1]!.limits.samples], [4, 0.5, 4])
  const shown = (await run(['show', '1'], first.env)) as {
    update: { loss: string; settings: Record<string, number> }
    limits: Record<string, number>
  }
  deepEqual(
    [shown.update.loss, shown.update.settings.batchSize, shown.update.settings.epochs, shown.limits.klParent],
    ['binary', 4, 1, 0.5],
  )
  await first.stop()
  deepEqual(await run(['sql', 'select count(*)::int as turns from version_turns where version = 1'], first.env), [
    { turns: 4 },
  ])

  write({ training: { batchSize: 2, learningRate: 0.001 }, gate: { klParent: 0.5 } })
  const rowOf = async (setting: string): Promise<unknown> => {
    const rows = (await run(['settings'], first.env)) as {
      setting: string
      value: unknown
      recorded: { value: unknown }
    }[]
    const row = rows.find((one) => one.setting === setting)
    return [row?.value, row?.recorded?.value]
  }
  deepEqual(await rowOf('training.batchSize'), [2, 4], 'the file has changed, the line has not been started since')
  match((await instar(['settings'], first.env, cwd)).out, /^training\.loss +"hybrid" +default +"binary" since /m)
  deepEqual(
    ((await run(['verify'], first.env)) as { ok: boolean; batches: { mode: string; ok: boolean }[] }).batches.map(
      ({ mode, ok }) => [mode, ok],
    ),
    [['recompute', true]],
    'whatever the file says today',
  )

  const second = await up(cwd)
  deepEqual(await rowOf('training.batchSize'), [2, 2])
  deepEqual(await rowOf('gate.samples'), [48, 48])
  deepEqual(await rowOf('judge.concurrency'), [4, undefined], 'a section that never differed has no record')
  await converse(second.url, 4, 2)
  match(await second.verdict(), /^version 2 serves|^an update was/)
  await second.stop()
})
