import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { InstarError, type WeightLine } from '@instar/events'
import { openMemoryLog, putBlob } from '@instar/log'
import {
  eventsOf,
  model,
  Publisher,
  sha256,
  sse,
  startRig,
  turnOf,
  USER,
  withAppend,
  type Rig,
} from '../../../../test/kit/gateway.ts'
import { gate, ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'
import { MOST_HELD } from './core/pool-plan.ts'
import { Pool } from './pool.ts'

const MESSAGES = { model: 'policy', messages: [USER('Hi')] }

const versionOf = async (rig: Rig, model = 'policy'): Promise<number> => {
  const response = await rig.fetch('/v1/chat/completions', { json: { ...MESSAGES, model } })
  await response.text()
  return Number(response.headers.get('x-instar-version'))
}

type Status = {
  head: number
  serving: number
  frozen: boolean
  pool: { loaded: number[] }
  problem: { version: number } | null
  status: string
  ignored: { weights: Record<string, number> }
}
const statusOf = async (rig: Rig): Promise<Status> => (await (await rig.fetch('/admin/status')).json()) as Status

/** Resolves when the gateway serves the version. */
const serving = async (rig: Rig, version: number): Promise<void> => {
  for (let i = 0; i < 200; i += 1) {
    if ((await statusOf(rig)).serving === version) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`version ${version} is not served`)
}

const post = async (
  rig: Rig,
  path: string,
  json: object = {},
): Promise<{ status: number; body: Record<string, unknown> & { error?: { code: string } } }> => {
  const response = await rig.fetch(path, { json })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

test('before a line exists the base is version 0', async () => {
  const rig = await startRig()
  try {
    assert.equal(await versionOf(rig), 0)
    assert.equal(await versionOf(rig, 'policy@0'), 0)
    assert.equal((await post(rig, '/admin/rollback', { version: 0 })).body.error!.code, 'no_line')
  } finally {
    await rig.stop()
  }
})

test('a gateway that starts reads the topic, loads the head and serves it', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const second = await publisher.publish(1)
  const rig = await startRig({ log })
  try {
    assert.equal(await versionOf(rig), 2)
    const turn = (await eventsOf(log)).at(-1)!
    assert.ok(turn.type === 'TurnCaptured')
    assert.equal(turn.adapter, second)
    assert.equal(turn.version, 2)
    assert.deepEqual(
      (await rig.client.models.list()).data.map(({ id }) => id),
      ['policy', 'policy@2', 'policy@1', 'policy@0'],
    )
  } finally {
    await rig.stop()
  }
})

test('a published version serves the next request within a second, and a running request keeps its version', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const first = await publisher.publish(0)
  const stuck = gate()
  const arrived = gate()
  const rig = await startRig({
    log,
    script: (request) => ({
      text: `I am ${request.adapter?.slice(0, 6)}, and go on for a while.`,
      before: (i) => {
        if (i === 3 && request.adapter === first) {
          arrived.open()
          return stuck.passed
        }
        return undefined
      },
    }),
    settings: { keepVersions: 1 },
  })
  try {
    const response = await rig.fetch('/v1/chat/completions', { json: { ...MESSAGES, stream: true } })
    await arrived.passed
    const begun = performance.now()
    const second = await publisher.publish(1)
    await serving(rig, 2)
    assert.equal(await versionOf(rig), 2)
    assert.ok(performance.now() - begun < 1000)
    assert.ok(rig.engine.loaded.has(first), 'one that a request is on stays')
    stuck.open()
    let text = ''
    for await (const line of sse(response))
      if (line !== '[DONE]') text += JSON.parse(line).choices[0].delta.content ?? ''
    assert.equal(text, `I am ${first.slice(0, 6)}, and go on for a while.`)
    assert.equal(response.headers.get('x-instar-version'), '1')
    assert.equal((await turnOf(log, response.headers.get('x-instar-turn-id'))).version, 1)
    await versionOf(rig)
    assert.deepEqual([...rig.engine.loaded.keys()], [second], 'one that nobody uses goes')
  } finally {
    await rig.stop()
  }
})

test('the last K versions stay loaded, and a pinned one is loaded on demand', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const rig = await startRig({ log, settings: { keepVersions: 2 } })
  try {
    for (let version = 1; version <= 5; version += 1) {
      await publisher.publish(version - 1)
      await serving(rig, version)
    }
    assert.deepEqual((await statusOf(rig)).pool.loaded, [0, 4, 5])
    assert.equal(await versionOf(rig, 'policy@1'), 1)
    assert.equal(await versionOf(rig, 'policy@0'), 0)
    assert.equal(await versionOf(rig), 5)
    assert.equal((await statusOf(rig)).pool.loaded.length, 3)
    const [a, b] = await Promise.all([versionOf(rig, 'policy@2'), versionOf(rig, 'policy@2')])
    assert.deepEqual([a, b], [2, 2])
  } finally {
    await rig.stop()
  }
})

test('a rollback writes one record with a freeze, serves before its answer, and a repetition changes nothing', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  for (let parent = 0; parent < 3; parent += 1) await publisher.publish(parent)
  const rig = await startRig({ log })
  try {
    const begun = performance.now()
    assert.deepEqual((await post(rig, '/admin/rollback', { version: 1, why: 'worse' })).body, {
      head: 1,
      version: 1,
      frozen: true,
    })
    assert.ok(performance.now() - begun < 1000)
    assert.equal(await versionOf(rig), 1)
    const moved = (await eventsOf(log, 'weights')).at(-1)!
    assert.ok(moved.type === 'HeadMoved')
    assert.deepEqual([moved.from, moved.to, moved.freeze, moved.who, moved.why], [3, 1, true, 'admin token', 'worse'])
    await post(rig, '/admin/rollback', { version: 1 })
    assert.equal((await eventsOf(log, 'weights')).length, 5)
    assert.deepEqual((await post(rig, '/admin/thaw')).body, { head: 1, version: 1, frozen: false })
    assert.deepEqual((await post(rig, '/admin/thaw')).body, { head: 1, version: 1, frozen: false })
    assert.deepEqual((await post(rig, '/admin/freeze', { who: 'eve' })).body, { head: 1, version: 1, frozen: true })
    assert.deepEqual((await post(rig, '/admin/rollback', { version: 2, keepLearning: true })).body, {
      head: 2,
      version: 2,
      frozen: true,
    })
    assert.equal((await eventsOf(log, 'weights')).length, 8)
    const none = await post(rig, '/admin/rollback', { version: 9 })
    assert.equal(none.body.error!.code, 'unknown_version')
    assert.equal((await post(rig, '/admin/rollback', {})).body.error!.code, 'bad_request')
    assert.equal((await post(rig, '/admin/promote', { branch: 'x' })).body.error!.code, 'not_available')
  } finally {
    await rig.stop()
  }
})

test('a rollback during streams ends none of them', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const stuck = gate()
  let running = 0
  const allIn = gate()
  const rig = await startRig({
    log,
    script: () => ({
      text: 'A longer answer that is not done yet.',
      before: (i) => {
        if (i !== 4) return undefined
        if ((running += 1) === 8) allIn.open()
        return stuck.passed
      },
    }),
  })
  try {
    const streams = await Promise.all(
      Array.from({ length: 8 }, () => rig.fetch('/v1/chat/completions', { json: { ...MESSAGES, stream: true } })),
    )
    await allIn.passed
    assert.equal((await post(rig, '/admin/rollback', { version: 0 })).body['version'], 0)
    stuck.open()
    for (const response of streams) {
      let text = ''
      for await (const line of sse(response))
        if (line !== '[DONE]') text += JSON.parse(line).choices[0].delta.content ?? ''
      assert.equal(text, 'A longer answer that is not done yet.')
      assert.equal(response.headers.get('x-instar-version'), '1')
    }
    assert.equal(await versionOf(rig), 0)
  } finally {
    await rig.stop()
  }
})

test('a command that loses a race is decided again and counts once', async () => {
  const memory = openMemoryLog()
  const publisher = new Publisher(memory)
  await publisher.start()
  await publisher.publish(0)
  let races = 2
  const log = withAppend(memory, async (records, next) => {
    if (records[0]!.topic === 'weights' && races > 0) {
      races -= 1
      await publisher.publish(1)
    }
    return next()
  })
  const rig = await startRig({ log })
  try {
    assert.deepEqual((await post(rig, '/admin/rollback', { version: 0 })).body, { head: 0, version: 0, frozen: true })
    assert.deepEqual((await statusOf(rig)).ignored.weights, { stale: 2 })
    assert.equal((await eventsOf(memory, 'weights')).filter(({ type }) => type === 'HeadMoved').length, 3)
  } finally {
    await rig.stop()
  }
})

test('a command that loses every race fails', async () => {
  const memory = openMemoryLog()
  const publisher = new Publisher(memory)
  await publisher.start()
  await publisher.publish(0)
  const log = withAppend(memory, async (records, next) => {
    if (records[0]!.topic === 'weights') await publisher.publish(1)
    return next()
  })
  const rig = await startRig({ log })
  try {
    assert.equal((await post(rig, '/admin/rollback', { version: 0 })).body.error!.code, 'lost_race')
  } finally {
    await rig.stop()
  }
})

test('a head with missing bytes is reported in the status, the previous version serves, and the head serves once its bytes arrive', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const rig = await startRig({ log })
  try {
    await publisher.publish(1, { stored: false })
    for (let i = 0; i < 100 && (await statusOf(rig)).problem === null; i += 1)
      await new Promise((resolve) => setTimeout(resolve, 5))
    const status = await statusOf(rig)
    assert.equal(status.head, 2)
    assert.equal(status.serving, 1)
    assert.equal(status.status, 'degraded')
    assert.equal(status.problem!.version, 2)
    assert.equal(await versionOf(rig), 1)
    const ready = await rig.fetch('/health/ready')
    assert.equal(ready.status, 200)
    assert.equal(((await ready.json()) as { status: string }).status, 'degraded')
    await putBlob(log, Buffer.from('adapter 2'), Date.now())
    await serving(rig, 2)
    assert.equal((await statusOf(rig)).problem, null)
  } finally {
    await rig.stop()
  }
})

test('a gateway that starts on such a head serves its nearest ancestor', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  await publisher.publish(1, { stored: false })
  const rig = await startRig({ log })
  try {
    assert.equal(await versionOf(rig), 1)
    assert.equal((await statusOf(rig)).status, 'degraded')
  } finally {
    await rig.stop()
  }
})

test('bytes with another sha256 than the record has are not served', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const rig = await startRig({
    log,
    ports: { toAdapter: (weights) => ({ sha256: sha256(Buffer.from('other')), weights, config: new Uint8Array(0) }) },
  })
  try {
    assert.equal(await versionOf(rig), 0)
    assert.equal((await statusOf(rig)).problem!.version, 1)
  } finally {
    await rig.stop()
  }
})

test('requests are served while a version loads', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const rig = await startRig({ log })
  try {
    const loading = gate()
    const loaded = gate()
    rig.engine.beforeLoad = () => {
      loading.open()
      return loaded.passed
    }
    await publisher.publish(0)
    await loading.passed
    for (let i = 0; i < 5; i += 1) assert.equal(await versionOf(rig), 0)
    loaded.open()
    await serving(rig, 1)
    assert.equal(await versionOf(rig), 1)
  } finally {
    await rig.stop()
  }
})

test('servesHead resolves when the published version has its adapter loaded, and the next request gets it', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const rig = await startRig({ log })
  try {
    const loaded = gate()
    rig.engine.beforeLoad = () => loaded.passed
    await publisher.publish(0)
    const order: string[] = []
    const served = rig.gateway.servesHead().then(() => order.push('served'))
    assert.equal(await versionOf(rig), 0)
    order.push('loaded')
    loaded.open()
    await served
    assert.deepEqual(order, ['loaded', 'served'])
    assert.equal(await versionOf(rig), 1)
  } finally {
    await rig.stop()
  }
})

test('promote is decided by the publisher and answers when the result serves', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const promote = async (branch: string) => {
    assert.equal(branch, 'again')
    await publisher.publish(0)
    return { accepted: true, version: 1 }
  }
  const replay = async function* (options: Readonly<Record<string, unknown>>): AsyncIterable<unknown> {
    yield { done: 1, total: 2 }
    if (options.branch === 'taken') throw new InstarError('branch_exists', 'there is a branch taken already')
    yield { equal: true, ...options }
  }
  const rig = await startRig({ log, ports: { promote, replay } })
  try {
    assert.deepEqual((await post(rig, '/admin/promote', { branch: 'again' })).body, {
      accepted: true,
      version: 1,
      head: 1,
      frozen: false,
    })
    assert.equal(await versionOf(rig), 1)
    const lines = async (branch: string): Promise<unknown[]> => {
      const response = await rig.fetch('/admin/replay', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ branch }),
      })
      return (await response.text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown)
    }
    assert.deepEqual(await lines('b'), [
      { done: 1, total: 2 },
      { equal: true, branch: 'b' },
    ])
    assert.equal(((await lines('taken'))[1] as { error: { code: string } }).error.code, 'branch_exists')
  } finally {
    await rig.stop()
  }
})

for (const topic of ['turns', 'weights'] as const) {
  test(`an unreadable record of ${topic} ends the process, which is not ready meanwhile and reports it`, async () => {
    const log = openMemoryLog()
    const fatal = Promise.withResolvers<Error>()
    const rig = await startRig({ log, ports: { onFatal: fatal.resolve } })
    try {
      assert.equal((await rig.fetch('/health/ready')).status, 200)
      await log.append([
        { topic, key: 'policy', schema: 'VersionBlessed.v1', payload: new Uint8Array([1]), timestamp: Date.now() },
      ])
      assert.equal(((await fatal.promise) as InstarError).code, 'unknown_record')
      assert.equal((await rig.fetch('/health/ready')).status, 503)
      assert.equal((await rig.fetch('/health/live')).status, 200)
    } finally {
      await rig.stop()
    }
  })
}

test('a rollback is followed while the adapter of the head that it leaves is still being loaded', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const rig = await startRig({ log })
  const held = gate()
  const arrived = gate()
  try {
    await serving(rig, 1)
    rig.engine.beforeLoad = () => {
      arrived.open()
      return held.passed
    }
    await publisher.publish(1)
    await arrived.passed
    assert.equal((await post(rig, '/admin/rollback', { version: 0 })).status, 200)
    await serving(rig, 0)
    assert.equal((await statusOf(rig)).problem, null)
  } finally {
    held.open()
    await rig.stop()
  }
})

test('an adapter that takes long to load is a problem of the head, until it is loaded', async () => {
  const log = openMemoryLog()
  const adapter = await putBlob(log, Buffer.from('adapter 1'), Date.now())
  const held = gate()
  const engine = new ScriptedEngine(model, () => '')
  engine.beforeLoad = () => held.passed
  const line = {
    head: 1,
    versions: new Map([[1, { adapter, parent: null, blobsAt: 0 }]]),
  } as unknown as WeightLine
  const toAdapter = (weights: Uint8Array) => ({ sha256: adapter, weights, config: new Uint8Array(0) })
  const pool = new Pool({ log, engine, line: () => line, toAdapter, now: Date.now, keep: 1, slowLoadMs: 1 })
  const ready = pool.ready()
  while (pool.problem() === null) await setImmediate()
  assert.deepEqual(pool.problem(), { version: 1, message: 'The engine has not loaded its adapter within 1 ms.' })
  held.open()
  await ready
  assert.deepEqual([pool.serving(), pool.problem()], [{ version: 1, adapter }, null])
  await pool.stop()
})

test('a version that is loaded is leased at once and not unloaded until its release; another one is waited for', async () => {
  const log = openMemoryLog()
  const adapters = [await putBlob(log, Buffer.from('1'), Date.now()), await putBlob(log, Buffer.from('2'), Date.now())]
  const line = {
    head: 1,
    versions: new Map(adapters.map((adapter, i) => [i + 1, { adapter, parent: null, blobsAt: 0 }])),
  } as unknown as WeightLine
  const toAdapter = (weights: Uint8Array) => ({
    sha256: adapters[Number(Buffer.from(weights).toString()) - 1]!,
    weights,
    config: new Uint8Array(0),
  })
  const engine = new ScriptedEngine(model, () => '')
  const pool = new Pool({ log, engine, line: () => line, toAdapter, now: Date.now, keep: 1, slowLoadMs: 60_000 })
  assert.equal(pool.leaseNow(null), null)
  await pool.ready()
  const lease = pool.leaseNow(null)
  assert.deepEqual([lease?.version, lease?.adapter], [1, adapters[0]])
  assert.deepEqual([pool.leaseNow(2), pool.leaseNow(3)], [null, null])
  line.head = 2
  pool.wake()
  while (pool.serving()?.version !== 2) await setImmediate()
  const second = await pool.lease(null)
  assert.deepEqual(pool.loadedAdapters().toSorted(), adapters.toSorted())
  lease!.release()
  second.release()
  while (pool.loadedAdapters().length > 1) await setImmediate()
  assert.deepEqual(pool.loadedAdapters(), [adapters[1]])
  await pool.stop()
})

test('requests for many earlier versions have few of them loaded at a time, also those of clients that left', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const adapters: string[] = []
  for (let version = 0; version < MOST_HELD + 6; version += 1) adapters.push(await publisher.publish(version))
  const engine = new ScriptedEngine(model, () => 'Hello')
  const rig = await startRig({ log, engine })
  const stuck = gate()
  const enough = gate()
  const begun: string[] = []
  engine.beforeLoad = (sha256) => {
    begun.push(sha256)
    if (begun.length === MOST_HELD) enough.open()
    return stuck.passed
  }
  const ask = (version: number, signal?: AbortSignal): Promise<Response> =>
    rig.fetch('/v1/chat/completions', {
      ...(signal ? { signal } : {}),
      json: { ...MESSAGES, model: `policy@${version}` },
    })
  try {
    const gone = new AbortController()
    const leaving = Array.from({ length: MOST_HELD }, (_, i) => ask(i + 1, gone.signal))
    await enough.passed
    gone.abort()
    for (const one of leaving) await assert.rejects(one, { name: 'AbortError' })
    for (let version = MOST_HELD + 1; version < adapters.length; version += 1) {
      const refused = await ask(version)
      assert.equal(refused.status, 429)
      assert.equal(((await refused.json()) as { error: { code: string } }).error.code, 'overloaded')
    }
    assert.deepEqual(begun.toSorted(), adapters.slice(0, MOST_HELD).toSorted())
    assert.equal(await versionOf(rig), adapters.length)
    stuck.open()
    let answer = await ask(MOST_HELD + 1)
    while (answer.status === 429) answer = await ask(MOST_HELD + 1)
    assert.equal(answer.headers.get('x-instar-version'), String(MOST_HELD + 1))
  } finally {
    stuck.open()
    await rig.stop()
  }
})
