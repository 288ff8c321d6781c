/**
 * `replay --judge`: joined turns are scored again by another judge, under the key of the branch, and trained on with
 * these scores.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeRecord,
  encodeEvent,
  foldTurns,
  initialTurns,
  TOPICS,
  type Event,
  type Logged,
  type TurnCaptured,
  type TurnSkipped,
  type TurnsEvent,
} from '@instar/events'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { runReplay, type ReplayLine } from '../../cli/src/replay.ts'
import { captured, type Said } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

const model = { ...SCRIPTED_MODEL, contextLength: 512 }
const now = (): number => 1000
const user = (content: string): Said => ({ role: 'user', content })

const append = async (log: MemoryLog, ...events: Event[]): Promise<void> => {
  for (const event of events) {
    const { id: _, ...record } = encodeEvent(event)
    await log.append([record])
  }
}

const read = async (log: MemoryLog): Promise<Logged[]> => {
  const found: Logged[] = []
  for (const topic of TOPICS)
    for await (const batch of log.read(topic)) for (const record of batch) found.push(decodeRecord(record))
  return found
}

/** A turn, its next state, and the reward of the original judge. */
const talk = (session: string, words: string, reward: number): Event[] => {
  const first = captured({ session, messages: [user('How tall is it?')], answer: 'It is 10 m.', at: 10 })
  const said: Said[] = [user('How tall is it?'), { role: 'assistant', content: 'It is 10 m.' }, user(words)]
  return [
    first,
    captured({ session, messages: said, answer: 'Well.', at: 20 }),
    {
      type: 'TurnScored',
      turn: first.turn,
      session,
      policy: 'policy',
      version: 0,
      subject: session,
      verdicts: [],
      cause: 'c',
      rank: null,
      at: 30,
      reward,
      judge: 'old',
      hint: null,
      hintJudge: null,
    },
  ]
}

test('a replay with another judge scores the turns of the log again and trains the branch on these scores', async () => {
  const log = openMemoryLog()
  const learner = new ScriptedLearner()
  const published = Promise.withResolvers<void>()
  const ports = { log, learner, model, now, onFatal: published.reject }
  const trainer = createTrainer(ports, trainerConfig.parse({ batchSize: 2 }))
  const publisher = createPublisher(
    {
      ...ports,
      evaluator: learner,
      probes: NO_PROBES,
      onProgress: ({ phase }) => {
        if (phase === 'published') published.resolve()
      },
    },
    publisherConfig.parse({}),
  )
  await Promise.all([trainer.start(), publisher.start()])
  await append(log, ...talk('a', 'Thanks, that is perfect!', -1), ...talk('b', 'No, that is wrong.', 1))
  await append(log, ...talk('c', 'No, it is 12 m.', 1))
  await published.promise
  await Promise.all([trainer.stop(), publisher.stop()])
  const [damaged, ...others] = talk('d', 'Thanks!', 1) as [TurnCaptured, ...Event[]]
  await append(log, { ...damaged, body: { ...damaged.body, sha256: 'another' } }, ...others)

  const turns = initialTurns()
  for (const logged of await read(log)) if (logged.topic === 'turns') foldTurns(turns, logged as Logged<TurnsEvent>)
  const run = { log, learner, model, policy: 'policy', turns, scorer: {} }
  const replayed = async (judge: string): Promise<ReplayLine[]> => {
    const options = { branch: 'again', from: null, until: null, set: {}, judge }
    const lines: ReplayLine[] = []
    for await (const line of runReplay(run, options, new AbortController().signal)) lines.push(line)
    return lines
  }
  await assert.rejects(replayed('llm'), { code: 'bad_request', message: /--judge llm: no judge has this name/ })
  const lines = await replayed('signals')
  const last = lines.at(-1)
  assert.ok(last && 'report' in last)
  assert.deepEqual([last.report.batches, last.report.versions, last.report.equal], [1, 1, null])
  assert.deepEqual(
    lines.flatMap((line) =>
      'progress' in line ? [[line.progress.phase, line.progress.done, line.progress.total]] : [],
    ),
    [
      ['judging', 1, 4],
      ['judging', 2, 4],
      ['judging', 3, 4],
      ['judging', 4, 4],
      ['training', 1, 1],
    ],
  )

  const all = await read(log)
  const scores = all.filter(({ topic, key }) => topic === 'scores' && key === 'policy~again').map(({ event }) => event)
  assert.deepEqual(
    scores.map((event) =>
      event.type === 'TurnScored'
        ? [event.session, event.reward]
        : [(event as TurnSkipped).session, (event as TurnSkipped).reason],
    ),
    [
      ['a', 1],
      ['b', -1],
      ['c', 'unagreed'],
      ['d', 'unreadable'],
    ],
  )
  assert.ok(
    scores.every(
      (event) => 'verdicts' in event && (event.verdicts[0]?.judge.startsWith('reactions-') ?? event.session === 'd'),
    ),
  )
  const sealed = (key: string): (readonly [string, number])[] =>
    all.flatMap(({ event }) =>
      event.type === 'BatchSealed' && event.policy === key
        ? event.items.map(({ session, reward }) => [session, reward] as const)
        : [],
    )
  assert.deepEqual(sealed('policy~again'), [
    ['a', 1],
    ['b', -1],
  ])
  assert.deepEqual(
    sealed('policy').slice(0, 2),
    [
      ['a', -1],
      ['b', 1],
    ],
    'the trunk is as it was',
  )
})
