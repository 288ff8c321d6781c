/** A trainer that reads `scores` alone (`training.scoresAlone`): what it follows, across restarts, and what it computes. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { decodeRecord, encodeEvent, weightLine, type BatchSealed, type Event, type TurnCaptured } from '@instar/events'
import { logWith, openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig, verify, type Trainer } from '@instar/trainer'
import { allow } from '../kit/event-log/cutting.ts'
import { captured, type Said } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

const TURNS = 4
const CONVERSATIONS = 4
const BATCH = 4

const conversation = (n: number, version: number, begun: number, task: string | null): TurnCaptured[] => {
  const messages: Said[] = []
  return Array.from({ length: TURNS }, (_, turn) => {
    messages.push({ role: 'user', content: `question ${turn}` })
    const answer = `answer ${n} ${turn}`
    const at = begun + 100 * turn + n
    const event = captured({
      session: `s${n}`,
      messages: [...messages],
      answer,
      at,
      version,
      ...(task ? { task } : {}),
    })
    messages.push({ role: 'assistant', content: answer })
    return event
  })
}

const open = async (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-scores-alone-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const memory = openMemoryLog()
  /** Topics of each subscription of the trainer. */
  const followed: string[][] = []
  const log: EventLog = logWith(memory, {
    subscribe(options) {
      if (options.group === 'trainer.policy') followed.push([...options.topics].sort())
      return memory.subscribe(options)
    },
  })
  const fatal: Error[] = []
  const ports = { log, now: () => Date.now(), onFatal: (error: Error) => void fatal.push(error) }
  const model = SCRIPTED_MODEL
  const settings = { batchSize: BATCH, batchMax: BATCH, staleness: 4 }
  let asked = 0
  const verdict = () => Promise.resolve({ value: (asked += 1) % 3 === 0 ? -1 : 1, note: '', hint: null })
  const judges = [{ id: 'judge', needsNextState: true, judge: verdict }]
  const limits = { duplicates: 64, askedAlone: 64, contradictions: 0 }
  const scorer = createScorer({ ...ports, judges }, scorerConfig.parse({ ...settings, ...limits }))
  const publisher = createPublisher(
    { ...ports, evaluator: new ScriptedLearner(), model, probes: NO_PROBES },
    publisherConfig.parse({}),
  )
  await Promise.all([scorer.start(), publisher.start()])
  const trainers: Trainer[] = []
  // Also where an assertion failed.
  t.after(() => Promise.all([scorer.stop(), publisher.stop(), ...trainers.map((one) => one.stop())]))
  const lines: string[] = []
  const startTrainer = async (scoresAlone: boolean): Promise<Trainer> => {
    followed.length = 0
    const snapshots = openSnapshots(folder, { records: 1, logLine: (line) => void lines.push(line) })
    const trainer = createTrainer(
      { ...ports, snapshots, learner: new ScriptedLearner(), model },
      trainerConfig.parse({ ...settings, taskEpisodes: CONVERSATIONS, scoresAlone }),
    )
    trainers.push(trainer)
    await trainer.start()
    return trainer
  }
  const ends = async (): Promise<string> => JSON.stringify(await log.ends(['turns', 'scores', 'updates', 'weights']))
  const quiet = async (trainer: Trainer | null): Promise<void> => {
    for (;;) {
      const before = await ends()
      const settled = (await scorer.settled()) && (await trainer?.settled()) !== false && (await scorer.settled())
      if (settled && (await ends()) === before) return
      await setImmediate()
    }
  }
  let said = 0
  /** Conversations of the head's version, each ended with an outcome; resolves with their turns. `task`: of all of them. */
  const talk = async (task: string | null = null, count = CONVERSATIONS): Promise<TurnCaptured[][]> => {
    const { head } = weightLine(scorer.state.weights, 'policy')
    const begun = Date.now() - 100 * TURNS
    const talks = Array.from({ length: count }, () => conversation((said += 1), head, begun, task))
    const turns: Event[] = talks.flat().sort((a, b) => a.at - b.at)
    const closed = talks.map((own, n): Event => {
      const { session, turn, at } = own.at(-1)!
      return { type: 'SessionClosed', session, open: [turn], why: 'client', at: at + 1, outcome: n % 2 === 0 ? 1 : -1 }
    })
    await log.append([...turns, ...closed].map((event) => encodeEvent(event)))
    return talks
  }
  const batches = async (): Promise<BatchSealed[]> => {
    const found: Event[] = []
    for await (const records of log.read('updates')) found.push(...records.map((one) => decodeRecord(one).event))
    assert.deepEqual(
      found.filter(({ type }) => type === 'UpdateFailed'),
      [],
    )
    return found.filter((event): event is BatchSealed => event.type === 'BatchSealed')
  }
  const stop = async (...others: Trainer[]): Promise<void> => {
    await Promise.all([scorer.stop(), publisher.stop(), ...others.map((one) => one.stop())])
    assert.deepEqual(fatal, [])
  }
  return { log, memory, followed, lines, startTrainer, quiet, talk, batches, stop }
}

const ALL = ['scores', 'turns', 'updates', 'upgrades', 'weights']
const WITHOUT_TURNS = ALL.filter((topic) => topic !== 'turns')
/** Of episodes without a task, each a group of its own; those of a task are one group, which one batch takes. */
const PER_ROUND = (TURNS * CONVERSATIONS) / BATCH

test('it leaves `turns` at the end of the log, and at each later start it does not read them', async (t) => {
  const { followed, startTrainer, quiet, talk, batches, stop } = await open(t)
  await talk()
  await quiet(null)
  const first = await startTrainer(true)
  assert.deepEqual(followed, [ALL, WITHOUT_TURNS])
  await quiet(first)
  assert.equal((await batches()).length, PER_ROUND)
  await talk('task')
  await quiet(first)
  assert.equal((await batches()).length, PER_ROUND + 1)
  await first.stop()

  await talk('task')
  const second = await startTrainer(true)
  assert.deepEqual(followed, [WITHOUT_TURNS])
  await quiet(second)
  assert.equal((await batches()).length, PER_ROUND + 2)
  await stop(second)
})

test('without the setting again it reads the log from its start and takes every turn once', async (t) => {
  const { followed, lines, startTrainer, quiet, talk, batches, stop } = await open(t)
  await talk()
  await quiet(null)
  const first = await startTrainer(true)
  await quiet(first)
  await first.stop()
  const second = await startTrainer(false)
  assert.deepEqual(followed, [ALL])
  assert.match(lines.join('\n'), /training\.scoresAlone is off/)
  await talk()
  await quiet(second)
  const items = (await batches()).flatMap((sealed) => sealed.items)
  assert.equal(items.length, 2 * PER_ROUND * BATCH)
  assert.equal(new Set(items.map(({ turn }) => turn)).size, items.length)
  await stop(second)
})

test('of an episode that is aborted after its outcome nothing is trained on, also not what had been skipped before', async (t) => {
  const { log, followed, startTrainer, quiet, talk, batches, stop } = await open(t)
  await talk()
  await quiet(null)
  const trainer = await startTrainer(true)
  assert.deepEqual(followed, [ALL, WITHOUT_TURNS])
  await quiet(trainer)
  // The group waits for the last of its episodes.
  const [first, ...others] = await talk('task', CONVERSATIONS - 1)
  await quiet(trainer)
  const aborted = others.map((turns): Event => {
    const { session } = turns[0]!
    return { type: 'SessionClosed', session, open: [], why: 'client', at: Date.now(), discarded: true }
  })
  await log.append(aborted.map((event) => encodeEvent(event)))
  await quiet(trainer)
  const more = await talk('task', CONVERSATIONS - 1)
  await quiet(trainer)
  assert.deepEqual(
    (await batches())
      .slice(PER_ROUND)
      .flatMap(({ items }) => items.map(({ turn }) => turn))
      .sort(),
    [first!, ...more].flatMap((turns) => turns.map(({ turn }) => turn)).sort(),
  )
  await stop(trainer)
})

for (const topic of ['turns', 'scores'] as const)
  test(`without the setting it goes on as it is where \`${topic}\` was cut, and says so`, async (t) => {
    const { log, followed, lines, startTrainer, quiet, talk, batches, stop } = await open(t)
    await talk()
    await quiet(null)
    const first = await startTrainer(true)
    await quiet(first)
    await first.stop()
    // Of each partition the last record stays.
    const ends = (await log.ends([topic]))[topic]!
    const starts = Object.fromEntries(Object.entries(ends).map(([one, end]) => [one, Math.max(0, end - 1)]))
    await allow(log, { [topic]: starts })
    await log.cut!({ [topic]: starts })
    const second = await startTrainer(false)
    assert.deepEqual(followed, [WITHOUT_TURNS])
    assert.match(lines.join('\n'), /goes on without turns .*training\.scoresAlone is off.* cut/)
    await talk('task')
    await quiet(second)
    assert.equal((await batches()).length, PER_ROUND + 1)
    await stop(second)
  })

test('a score that does not say what its turn is makes the next start read the turns, from which it is trained on', async (t) => {
  const { log, followed, lines, startTrainer, quiet, talk, batches, stop } = await open(t)
  await talk()
  await quiet(null)
  const first = await startTrainer(true)
  await quiet(first)
  const turns = conversation(1_000, 0, Date.now(), null)
  const scores = turns.map(({ turn, session }): Event => ({ ...SCORE, turn, session, cause: turn, at: Date.now() }))
  // The scorer gives no other score to a turn that has one.
  await log.append(scores.map((event) => encodeEvent(event)))
  await quiet(first)
  await log.append(turns.map((event) => encodeEvent(event)))
  await quiet(first)
  assert.equal((await batches()).length, PER_ROUND)
  await first.stop()
  const second = await startTrainer(true)
  assert.equal(followed[0]?.includes('turns'), true)
  assert.match(lines.join('\n'), /scores of an earlier build do not say what their turns are/)
  await quiet(second)
  assert.deepEqual(
    (await batches()).slice(PER_ROUND).map(({ items }) => items.map(({ turn }) => turn).sort()),
    [turns.map(({ turn }) => turn).sort()],
  )
  await stop(second)
})

const SCORE = {
  type: 'TurnScored' as const,
  policy: 'policy',
  version: 0,
  subject: 'u',
  verdicts: [],
  rank: null,
  reward: 1,
  judge: 'j',
  hint: null,
  hintJudge: null,
}

/** A group of episodes is trained on without `turns`, as one batch, and computed again without a difference. */
const trainsAndVerifies = async ({
  log,
  followed,
  startTrainer,
  quiet,
  talk,
  batches,
  stop,
}: Awaited<ReturnType<typeof open>>): Promise<void> => {
  await talk('task')
  await quiet(null)
  const trainer = await startTrainer(true)
  assert.deepEqual(followed, [ALL, WITHOUT_TURNS])
  await quiet(trainer)
  assert.deepEqual(
    (await batches()).map(({ items }) => items.length),
    [TURNS * CONVERSATIONS],
  )
  await stop(trainer)
  const report = await verify({ log, learner: new ScriptedLearner(), model: SCRIPTED_MODEL }, 'policy', null)
  assert.deepEqual([report.batches.map(({ difference }) => difference), report.ok], [[null], true])
}

test('verify computes the updates of a trainer that read scores alone again', async (t) => {
  await trainsAndVerifies(await open(t))
})

test('turns behind records of a clock that was ahead are trained on, and verify computes the same', async (t) => {
  const opened = await open(t)
  const ahead = Date.now() + 24 * 3_600_000
  const early = Array.from({ length: 64 }, (_, n) =>
    captured({ session: `ahead${n}`, messages: [{ role: 'user', content: 'x' }], answer: 'y', at: ahead }),
  )
  await opened.log.append(early.map((event) => encodeEvent(event)))
  await trainsAndVerifies(opened)
})
