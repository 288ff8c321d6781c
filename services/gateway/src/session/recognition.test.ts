/** A conversation without a name is recognised beyond memory, as one in memory is: over HTTP, with a real table of names. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { startRig, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'

type Said = { role: 'user' | 'assistant'; content: string }
const MODEST = { sessions: 2, turns: 8 }
const folderOf = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-recognition-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

type Choice = { log: EventLog; folder: string; settings?: object; now?: () => number; lines?: string[] }
/** Each answer repeats the request's last message, or is that of `same`. */
const start = ({ log, folder, settings = MODEST, now, lines = [] }: Choice): Promise<Rig> =>
  startRig({
    log,
    script: ({ prompt }) => answerTo(prompt),
    settings,
    ports: {
      snapshots: openSnapshots(folder, { records: 4, ms: Infinity, logLine: (line) => void lines.push(line) }),
      ...(now ? { now } : {}),
    },
  })
let answers = 0
const answerTo = (_prompt: unknown): string => `Answer ${(answers += 1)} of mine.`

const ask = async (rig: Rig, said: readonly Said[], user: string): Promise<Said[]> => {
  const { choices } = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [...said, { role: 'user', content: user }],
  })
  return [...said, { role: 'user', content: user }, { role: 'assistant', content: choices[0]!.message.content ?? '' }]
}

/** Conversations of one turn, more than memory holds. */
const others = async (rig: Rig, count: number): Promise<void> => {
  for (let i = 0; i < count; i += 1) await ask(rig, [], `Question ${answers}, of somebody else.`)
}

/** Whether the last turn on the log continues the first, in its session. */
const continues = async (log: EventLog): Promise<boolean> => {
  const turns = await turnsOf(log)
  const [first, last] = [turns[0]!, turns.at(-1)!]
  return last.session === first.session && last.after?.strict === first.answer.strict
}

test('a conversation is recognised after more others than memory holds, and after restarts', async (t) => {
  const [log, folder] = [openMemoryLog(), folderOf(t)]
  let rig = await start({ log, folder })
  let said = await ask(rig, [], 'What is the capital of France?')
  await others(rig, 12)
  said = await ask(rig, said, 'And of Spain?')
  assert.ok(await continues(log))
  await others(rig, 12)
  await rig.stop()
  rig = await start({ log, folder })
  said = await ask(rig, said, 'And of Italy?')
  const turns = await turnsOf(log)
  assert.equal(turns.at(-1)!.session, turns[0]!.session)
  const { body } = { body: await (await rig.fetch('/metrics')).text() }
  assert.match(body, /instar_names_held(\{[^}]*\})? 54/)
  assert.match(body, /instar_name_reads_total\{[^}]*outcome="found"[^}]*\} 1/)
  await rig.stop()
})

test('without days or without bytes it is recognised while it is in memory', async (t) => {
  for (const none of [{ recognitionDays: 0 }, { recognitionBytes: 0 }]) {
    const log = openMemoryLog()
    const rig = await start({ log, folder: folderOf(t), settings: { ...MODEST, ...none } })
    const said = await ask(rig, [], 'What is the capital of France?')
    await others(rig, 12)
    await ask(rig, said, 'And of Spain?')
    assert.ok(!(await continues(log)))
    await rig.stop()
  }
})

test('turns of a life without a table are recognised in the next life that has one', async (t) => {
  for (const before of [0, 1]) {
    const [log, folder] = [openMemoryLog(), folderOf(t)]
    const lines: string[] = []
    let rig: Rig
    if (before > 0) {
      rig = await start({ log, folder })
      await others(rig, 12)
      await rig.stop()
    }
    rig = await start({ log, folder, settings: { ...MODEST, recognitionDays: 0 } })
    assert.ok(!existsSync(join(folder, 'gateway.policy.turns.db.names')))
    const first = (await turnsOf(log)).length
    const said = await ask(rig, [], 'What is the capital of France?')
    await others(rig, 12)
    await rig.stop()
    rig = await start({ log, folder, lines })
    await ask(rig, said, 'And of Spain?')
    const turns = await turnsOf(log)
    assert.equal(turns.at(-1)!.session, turns[first]!.session)
    assert.equal(lines.filter((line) => line.includes('log is read from its start')).length, 1)
    lines.length = 0
    await rig.stop()
    rig = await start({ log, folder, lines })
    assert.deepEqual(lines, [])
    await rig.stop()
  }
})

test('it is recognised for the days of the setting, not for longer', async (t) => {
  for (const [ms, found] of [
    [6.9 * 86_400_000, true],
    [7.1 * 86_400_000, false],
  ] as const) {
    const log = openMemoryLog()
    let now = 1_800_000_000_000
    const rig = await start({ log, folder: folderOf(t), now: () => now })
    const said = await ask(rig, [], 'What is the capital of France?')
    now += ms
    await others(rig, 12)
    await ask(rig, said, 'And of Spain?')
    assert.equal(await continues(log), found)
    await rig.stop()
  }
})

test('turns of a clock that was ahead do not keep later conversations from being recognised', async (t) => {
  const log = openMemoryLog()
  let now = 1_800_000_000_000
  const rig = await start({ log, folder: folderOf(t), now: () => now })
  const said = await ask(rig, [], 'What is the capital of France?')
  now += 1_000
  for (const days of [8, 365]) {
    now += days * 86_400_000
    await others(rig, 12)
    now -= days * 86_400_000
  }
  await others(rig, 12)
  now += 1_000
  await ask(rig, said, 'And of Spain?')
  const turns = await turnsOf(log)
  const [first, last] = [1_800_000_000_000, now].map((at) => turns.find(({ finishedAt }) => finishedAt === at))
  assert.equal(last!.session, first!.session)
  await rig.stop()
})

for (const [how, harm] of [
  ['lost', (names: string) => rmSync(names, { recursive: true })],
  ['emptied', (names: string) => readdirSync(names).forEach((file) => writeFileSync(join(names, file), ''))],
  [
    'overwritten in its middle',
    (names: string) => {
      for (const file of readdirSync(names).filter((name) => /\.(ldb|log)$/.test(name))) {
        const bytes = readFileSync(join(names, file))
        bytes.fill(0xa5, bytes.length >> 2, bytes.length >> 1)
        writeFileSync(join(names, file), bytes)
      }
    },
  ],
] as const)
  test(`a table of names that is ${how} is made again from the log`, async (t) => {
    const [log, folder] = [openMemoryLog(), folderOf(t)]
    const lines: string[] = []
    let rig = await start({ log, folder })
    const said = await ask(rig, [], 'What is the capital of France?')
    await others(rig, 12)
    await rig.stop()
    harm(join(folder, 'gateway.policy.turns.db.names'))
    // Damage that only a read finds costs one more start.
    for (let n = 0; n < 2; n += 1) {
      rig = await start({ log, folder, lines })
      await ask(rig, said, `And of country ${n}?`)
      await others(rig, 12)
      await rig.stop()
    }
    rig = await start({ log, folder, lines })
    await ask(rig, said, 'And of Spain?')
    assert.ok(await continues(log))
    assert.ok(lines.some((line) => /log is read from its start|reads the log again/.test(line)))
    await rig.stop()
  })
