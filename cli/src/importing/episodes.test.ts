/** Episodes in `instar export` and `instar import`. */
import { encodeRecord, schemaTexts, type SessionClosed } from '@instar/events'
import { openEmbeddedLog, openMemoryLog, type EventLog } from '@instar/log'
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { startRig, USER } from '../../../test/kit/gateway.ts'
import { importFile, jsonLines, readLog, type LogContents } from '../../../test/kit/imported.ts'
import { readExisting } from './existing.ts'
import { importFiles } from './import.ts'

const ASSISTANT = (content: string) => ({ role: 'assistant', content })

test('episodes: tasks, outcomes with the turns that they cover, aborted ones; a repeated import adds nothing', async (t) => {
  const [from, to] = [folder(), folder()]
  const log = await openEmbeddedLog({ folder: join(from, 'log'), schemas: schemaTexts() })
  let answers = 0
  const rig = await startRig({ log, script: () => `Answer ${(answers += 1)}` })
  const say = (session: string, task: string | null, text = 'Sort it.') =>
    rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER(text)] },
      headers: { 'x-session-id': session, ...(task === null ? {} : { 'x-instar-task-id': task }) },
    })
  const close = async (session: string, json: object): Promise<void> =>
    equal((await rig.fetch(`/v1/sessions/${session}/close`, { json, method: 'POST' })).status, 200)
  await say('won', 'sort')
  await say('won', 'sort', 'And this.')
  await close('won', { reward: 1 })
  await say('won', 'sort', 'After the end.')
  await say('half', null)
  await close('half', { reward: -0.5, task_id: 'count' })
  await say('aborted', 'sort')
  await close('aborted', { discarded: true })
  await say('talk', null)
  await rig.stop()
  await log.close()

  const path = join(folder(), 'episodes.jsonl')
  const exported = await instar(['export', path, '--json'], { INSTAR_DATA: from })
  deepEqual(
    exported.json,
    {
      sessions: 4,
      turns: 6,
      aborted: 0,
      unshown: 0,
      feedback: 0,
      outcomes: 2,
      discarded: 1,
      damaged: 0,
      unreadable: [],
    },
    exported.err,
  )
  const dry = await importFile(to, path, '--dry-run', '--own-versions')
  deepEqual([dry.turns, dry.outcomes, dry.discarded], [6, 2, 1])
  const first = await importFile(to, path, '--own-versions')
  deepEqual([first.code, first.turns, first.trainable, first.outcomes, first.discarded], [0, 6, 6, 2, 1])

  const [a, b] = [await readLog(t, from), await readLog(t, to)]
  const episodesOf = ({ turns, events }: LogContents) => ({
    turns: turns.map(({ turn, task, closed, outcomeBy, discardedBy }) => [
      turn,
      task,
      closed,
      outcomeBy !== null,
      discardedBy !== null,
    ]),
    ends: events
      .filter((event): event is SessionClosed => event.type === 'SessionClosed')
      .map(({ session, outcome, task, discarded, open }) => [session, outcome, task, discarded, open.length])
      .toSorted(([one], [other]) => (String(one) < String(other) ? -1 : 1)),
    at: new Map(
      events.flatMap((event) =>
        event.type === 'SessionClosed' && event.outcome !== null ? [[event.session, event.at]] : [],
      ),
    ),
  })
  deepEqual(episodesOf(b), episodesOf(a))
  deepEqual(episodesOf(b).ends, [
    ['aborted', null, null, true, 1],
    ['half', -0.5, 'count', false, 1],
    ['won', 1, null, false, 2],
  ])
  deepEqual(
    b.turns.filter(({ session }) => session === 'won').map(({ outcomeBy }) => outcomeBy !== null),
    [true, true, false],
  )
  for (const data of [from, to]) {
    const before = (await readLog(t, data)).records
    const repeated = await importFile(data, path, '--own-versions')
    deepEqual([repeated.turns, repeated.there, repeated.outcomes, repeated.discarded], [0, 6, 0, 0])
    equal((await readLog(t, data)).records, before)
  }
})

test('outcomes by hand: a reward of the range, of a conversation on its end, one that comes later, another one', async (t) => {
  const data = folder()
  const conversation = { messages: [USER('2+2?'), ASSISTANT('5'), USER('No.'), ASSISTANT('4')], session_id: 'sum' }
  const options = ['--rewards', '0:1'] as const
  deepEqual((await importFile(data, jsonLines([conversation]), ...options)).outcomes, 0)
  const ended = { ...conversation, task_id: 'add', outcome: 0, last: true }
  const later = await importFile(data, jsonLines([ended]), ...options)
  deepEqual([later.turns, later.there, later.outcomes], [0, 2, 1], 'the same turns, now with their outcome')
  const other = await importFile(
    data,
    jsonLines([
      { ...ended, outcome: 1 },
      { ...conversation, session_id: 'two', discarded: true, last: true },
    ]),
    ...options,
  )
  deepEqual([other.turns, other.outcomes, other.discarded], [2, 0, 1])
  const wrong = await importFile(
    data,
    jsonLines([
      { ...ended, outcome: 2 },
      { ...ended, outcome: {} },
      { ...ended, discarded: 1 },
      { ...ended, task_id: 'x'.repeat(201) },
    ]),
    ...options,
  )
  deepEqual(
    [wrong.code, wrong.skipped.map(({ reason }) => reason)],
    [
      1,
      [
        'outcome must be true, false or a number from 0 to 1.',
        'outcome.value must be true, false or a number from -1 to 1.',
        'discarded must be true or false.',
        'task_id must be a text of at most 200 characters.',
      ],
    ],
  )
  const { events, turns } = await readLog(t, data)
  deepEqual(
    events
      .filter((event): event is SessionClosed => event.type === 'SessionClosed')
      .map(({ session, outcome, discarded, open }) => [session, outcome, discarded, open.length]),
    [
      ['sum', -1, false, 2],
      ['two', null, true, 2],
    ],
  )
  deepEqual(
    turns.map(({ outcomeBy, discardedBy }) => [outcomeBy !== null, discardedBy !== null]),
    [
      [true, false],
      [true, false],
      [false, true],
      [false, true],
    ],
  )
})

test('while older readers of the log do not know outcomes, a file with episodes is refused and nothing is written', async () => {
  const memory = openMemoryLog()
  const log: EventLog = new Proxy(memory, {
    get(target, name) {
      const value: unknown = name === 'sole' ? false : Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const conversation = { messages: [USER('2+2?'), ASSISTANT('4')], session_id: 'sum' }
  const importInto = (line: object) =>
    importFiles(
      [jsonLines([conversation, line])],
      {
        log,
        existing: (sessions) => readExisting(log, 'policy', sessions),
        tokenizer: () => Promise.resolve(null),
        now: () => 1,
        onProgress: () => undefined,
        signal: new AbortController().signal,
      },
      { policy: 'policy', key: null, ownVersions: false, unsampled: false, rewards: null },
    )
  for (const more of [{ outcome: 1 }, { discarded: true }, { task_id: 'add' }])
    await rejects(importInto({ ...conversation, ...more }), { code: 'not_announced' })
  deepEqual((await log.ends(['turns'])).turns, (await openMemoryLog().ends(['turns'])).turns)
  equal((await importInto(conversation)).turns, 1)
  const versions = { TurnCaptured: 3, SessionClosed: 3, BatchSealed: 2 }
  await log.append([encodeRecord({ type: 'ReadersUpgraded', versions, who: 'setup', at: 1 })])
  equal((await importInto({ ...conversation, outcome: 1 })).outcomes, 1)
})
