/** A request of a few bytes that needs the large body of an earlier turn is charged for it, and waits its turn. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { ERRORS, InstarError, type ErrorCode } from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
import { startRig, turnsOf, USER, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'
import { readForSession } from './earlier-body.ts'
import { MOST_READINGS, Paced } from './paced.ts'

const MIB = 1024 * 1024
const LARGE = 1.5 * MIB
const CITY = USER('What is the capital of France?')
const NAMED = { 'x-instar-session-id': 'talk' }
const MORE = { model: 'policy', messages: [CITY, { role: 'assistant', content: 'Paris.' }, USER('And of Spain?')] }

/** `turns`: of the session of each question. */
type Asked = { turns?: number; answer?: string; asked?: readonly (typeof CITY)[] }

/**
 * A gateway that has cached nothing, on a log with turns of one session, each with a blob of its own. `onBlob` is awaited
 * before one is read.
 */
const start = async (
  t: TestContext,
  onBlob: () => Promise<void>,
  { asked = [CITY], answer = 'Paris.', turns = 1, ...options }: RigOptions & Asked = {},
): Promise<Rig> => {
  const log = openMemoryLog()
  const before = await startRig({ log, script: () => answer })
  for (let i = 0; i < turns; i += 1) {
    for (const [at, message] of asked.entries()) {
      const json = { model: 'policy', messages: [message], note: String(i).repeat(LARGE) }
      const headers = at === 0 ? NAMED : { 'x-instar-session-id': `talk ${at}` }
      assert.equal((await before.fetch('/v1/chat/completions', { json, headers })).status, 200)
    }
  }
  await before.stop()
  const read: EventLog['read'] = async function* (topic, given) {
    if (topic === 'blobs') await onBlob()
    yield* log.read(topic, given)
  }
  const slow = new Proxy(log, {
    get: (target, name) => {
      if (name === 'read') return read
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  const rig = await startRig({ script: () => 'Madrid.', ...options, log: slow })
  t.after(() => rig.stop())
  return rig
}

const heldBy = async (rig: Rig): Promise<number> => {
  const metrics = await (await rig.fetch('/metrics')).text()
  return Number(/^instar_request_body_bytes (\S+)$/m.exec(metrics)![1])
}

for (const [which, headers] of [
  ['names its session', NAMED],
  ['repeats an answer', {}],
] as const)
  test(`a request that ${which} holds the earlier body until it is compared`, async (t) => {
    const held: number[] = []
    const look = async (): Promise<void> => void held.push(await heldBy(rig))
    const rig = await start(t, look, {
      script: () => ({ text: 'Madrid.', before: (i) => (i === 0 ? look() : undefined) }),
    })
    assert.equal((await rig.fetch('/v1/chat/completions', { json: MORE, headers })).status, 200)
    const [reading, answering] = held
    assert.equal(held.length, 2)
    assert.ok(reading! > LARGE && reading! < LARGE + MIB / 8, `${reading} bytes while it is read`)
    assert.ok(answering! < MIB / 8, `${answering} bytes while the model answers`)
    const [first, second] = await turnsOf(rig.log)
    assert.equal(second!.session, first!.session)
    assert.deepEqual([second!.after, second!.body.from], [first!.answer, first!.turn])
  })

test('while the log is away, a request that repeats the answer of two conversations fails, and its retry is in the right one', async (t) => {
  let away = true
  const rig = await start(
    t,
    async () => {
      if (away) throw new InstarError('log_unavailable', 'Kafka: away')
    },
    { asked: [CITY, USER('Which city lies on the Seine?')] },
  )
  const refused = await rig.fetch('/v1/chat/completions', { json: MORE })
  assert.equal(refused.status, 503)
  assert.equal(((await refused.json()) as { error: { code: string } }).error.code, 'log_unavailable')
  away = false
  assert.equal((await rig.fetch('/v1/chat/completions', { json: MORE })).status, 200)
  const turns = await turnsOf(rig.log)
  assert.equal(turns.length, 3)
  assert.deepEqual([turns[2]!.session, turns[2]!.after], [turns[0]!.session, turns[0]!.answer])
})

test('while the log is away, a request whose answer no other conversation has is answered, in its session', async (t) => {
  const answer = 'Paris, which lies on the Seine and has been the capital of France for some thousand years.'
  const away = async (): Promise<void> => {
    throw new InstarError('log_unavailable', 'Kafka: away')
  }
  const rig = await start(t, away, { answer })
  const json = { ...MORE, messages: [CITY, { role: 'assistant', content: answer }, USER('And of Spain?')] }
  assert.equal((await rig.fetch('/v1/chat/completions', { json })).status, 200)
  const [first, second] = await turnsOf(rig.log)
  assert.deepEqual([second!.session, second!.after], [first!.session, first!.answer])
})

test('while the log is away, a long answer of two conversations tells no session, and the request before it does', async (t) => {
  let away = true
  const answer = 'I am sorry, but I cannot help with that request. Please let me know if there is anything else.'
  const rig = await start(
    t,
    async () => {
      if (away) throw new InstarError('log_unavailable', 'Kafka: away')
    },
    { answer, asked: [CITY, USER('Which city lies on the Seine?')] },
  )
  const ask = async (before: readonly object[]): Promise<number> => {
    const messages = [...before, CITY, { role: 'assistant', content: answer }, USER('And of Spain?')]
    return (await rig.fetch('/v1/chat/completions', { json: { ...MORE, messages } })).status
  }
  // An agent has added a message: no earlier request is the same.
  const added = [{ role: 'system', content: 'Be brief.' }]
  assert.deepEqual([await ask(added), await ask([])], [503, 200])
  away = false
  assert.equal(await ask(added), 200)
  const [first, ...others] = await turnsOf(rig.log)
  assert.equal(others.length, 3)
  for (const { session, after } of others.slice(1)) assert.deepEqual([session, after], [first!.session, first!.answer])
})

test('a reading for the session fails with the codes of its request, and reports a log or archive that is away', async () => {
  const passed: string[] = []
  const missed: string[] = []
  for (const code of Object.keys(ERRORS) as ErrorCode[])
    await readForSession({ missed: (error) => void missed.push(error.code) }, null, async () => {
      throw new InstarError(code, 'a test')
    }).catch(() => passed.push(code))
  assert.deepEqual(passed.sort(), ['aborted', 'overloaded', 'snapshot_damaged'])
  assert.deepEqual(missed.sort(), ['archive_unavailable', 'log_unavailable'])
})

for (const [what, error] of [
  ['a defect', new InstarError('internal', 'a defect')],
  ['an error of SQLite', Object.assign(new Error('database disk image is malformed'), { errcode: 11 })],
  ['a value of another type', new TypeError('x is not a function')],
] as const)
  for (const [which, asked, headers] of [
    ['continues a session', [CITY], NAMED],
    ['repeats the answer of two conversations', [CITY, USER('Which city lies on the Seine?')], {}],
  ] as const)
    test(`${what} in reading an earlier turn, which no retry mends, fails no request that ${which}`, async (t) => {
      let reads = 0
      const rig = await start(
        t,
        async () => {
          reads += 1
          throw error
        },
        { asked },
      )
      const statuses: number[] = []
      for (let i = 0; i < 2; i += 1)
        statuses.push((await rig.fetch('/v1/chat/completions', { json: MORE, headers })).status)
      assert.deepEqual(statuses, [200, 200])
      assert.ok(reads <= 12, `${reads} reads`)
      const turns = await turnsOf(rig.log)
      if (headers === NAMED)
        for (const turn of turns) assert.deepEqual([turn.session, turn.body.from], [turns[0]!.session, null])
    })

test('a request holds the body before the one that it needs, too, while that is put together', async (t) => {
  const held: number[] = []
  const rig = await start(t, async () => void held.push(await heldBy(rig)), { turns: 2 })
  assert.equal((await rig.fetch('/v1/chat/completions', { json: MORE, headers: NAMED })).status, 200)
  // The needed one with the first; then with the first and its own part, which is all but its beginning.
  assert.deepEqual(
    held.map((bytes) => Math.round(bytes / LARGE)),
    [2, 3],
  )
  assert.equal(await heldBy(rig), 0)
})

test('a request that continues a session reads its last body once, for what is stored and for its tools', async (t) => {
  const rig = await start(t, async () => undefined)
  const run = t.mock.method(Paced.prototype, 'run')
  assert.equal((await rig.fetch('/v1/chat/completions', { json: MORE, headers: NAMED })).status, 200)
  assert.equal(run.mock.callCount(), 1)
})

test('of many such requests one reads, half of the places wait, and the rest are refused', async (t) => {
  const released = Promise.withResolvers<void>()
  t.after(() => released.resolve())
  const looked = Promise.withResolvers<void>()
  let [reading, refused] = [0, 0]
  const beyond = 4
  const rig = await start(t, () => {
    reading += 1
    if (reading > 1) looked.resolve()
    return released.promise
  })
  const ask = async (): Promise<number> => {
    const response = await rig.fetch('/v1/chat/completions', { json: MORE, headers: NAMED })
    const { error } = (await response.json()) as { error?: { code: string } }
    if (error?.code === 'overloaded') refused += 1
    if (refused === beyond) looked.resolve()
    return response.status
  }
  const asked = Array.from({ length: MOST_READINGS / 2 + beyond }, ask)
  await looked.promise
  const held = await heldBy(rig)
  assert.deepEqual([reading, refused], [1, beyond])
  assert.ok(held < LARGE + MIB / 2, `${held} bytes are held`)
  released.resolve()
  const statuses = await Promise.all(asked)
  assert.equal(statuses.filter((status) => status === 200).length, MOST_READINGS / 2)
  assert.equal(await heldBy(rig), 0)
})

test('without room for the earlier body the request is refused, and no turn is written', async (t) => {
  const released = Promise.withResolvers<void>()
  t.after(() => released.resolve())
  const begun = Promise.withResolvers<void>()
  const rig = await start(t, () => assert.fail('read'), {
    settings: { bodyLimit: 4 * MIB, bodiesLimit: 4 * MIB },
    script: () => ({
      text: 'Yes.',
      before: () => {
        begun.resolve()
        return released.promise
      },
    }),
  })
  const json = { model: 'policy', messages: [USER('Is it?')], note: 'x'.repeat(LARGE) }
  const other = rig.fetch('/v1/chat/completions', { json, headers: { 'x-instar-session-id': 'other' } })
  await begun.promise
  const response = await rig.fetch('/v1/chat/completions', { json: MORE, headers: NAMED })
  const { error } = (await response.json()) as { error?: { code: string } }
  released.resolve()
  assert.deepEqual([response.status, error?.code], [429, 'overloaded'])
  assert.equal((await other).status, 200)
  assert.equal((await turnsOf(rig.log)).length, 2)
})

/** A gateway with eight sessions of a large request each, all answered alike, that has cached none of them. */
const alike = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  const log = openMemoryLog()
  const before = await startRig({ log, script: () => 'Yes.' })
  for (let i = 0; i < 8; i += 1) {
    const json = { model: 'policy', messages: [USER(`Is it ${i}?`)], note: 'x'.repeat(LARGE) }
    assert.equal((await before.fetch('/v1/chat/completions', { json })).status, 200)
  }
  await before.stop()
  const rig = await startRig({ script: () => 'Certainly.', ...options, log })
  t.after(() => rig.stop())
  return rig
}
const AGAIN = {
  model: 'policy',
  messages: [USER('Is it 3?'), { role: 'assistant', content: 'Yes.' }, USER('Are you sure?')],
}

test('a request that may continue eight sessions reads one of them at a time, and others of its key are not refused', async (t) => {
  const rig = await alike(t, { settings: { bodyLimit: 2 * MIB, bodiesLimit: 32 * MIB } })
  const run = t.mock.method(Paced.prototype, 'run')
  const asked = Array.from({ length: 5 }, () => rig.fetch('/v1/chat/completions', { json: AGAIN }))
  const statuses = (await Promise.all(asked)).map(({ status }) => status)
  assert.deepEqual(statuses, [200, 200, 200, 200, 200])
  assert.ok(run.mock.callCount() >= 40)
  const turns = await turnsOf(rig.log)
  assert.deepEqual(new Set(turns.slice(8).map(({ session }) => session)), new Set([turns[3]!.session]))
  assert.equal(await heldBy(rig), 0)
})

test('a request that may continue eight large sessions takes the memory of one of them', async (t) => {
  // A request may take 6 MiB; the eight take 12 MiB parsed.
  const rig = await alike(t, { settings: { bodyLimit: 2 * MIB, bodiesLimit: 8 * MIB } })
  const response = await rig.fetch('/v1/chat/completions', { json: AGAIN })
  assert.equal(response.status, 200)
})

for (const [which, size, headers, isDifference] of [
  ['parsed', 2.5, NAMED, true],
  ['parsed, and which names no session,', 2.5, {}, true],
  ['read', 3.5, NAMED, false],
  ['read, and which names no session,', 3.5, {}, false],
] as const)
  test(`a conversation goes on whose earlier body, ${which} beside its own, exceeds what a request may take`, async (t) => {
    // A request may take 12 MiB; text that is not ASCII takes three times its bytes.
    const rig = await startRig({ script: () => 'Paris.', settings: { bodyLimit: 4 * MIB, bodiesLimit: 4 * MIB } })
    t.after(() => rig.stop())
    const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
    const note = `é${'x'.repeat(size * MIB)}`
    for (const messages of [[CITY], MORE.messages]) {
      const json = { model: 'policy', messages, note, tools }
      assert.equal((await rig.fetch('/v1/chat/completions', { json, headers })).status, 200)
    }
    const [first, second] = await turnsOf(rig.log)
    assert.equal(second!.session, first!.session)
    assert.deepEqual(second!.after, first!.answer)
    assert.equal(second!.body.from, isDifference ? first!.turn : null)
    assert.equal(await heldBy(rig), 0)
  })
