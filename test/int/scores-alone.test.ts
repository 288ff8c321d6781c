/** A trainer that reads `scores` alone on Kafka, where two scorers judge the episodes of a task. */
import { decodeRecord, encodeEvent, type BatchSealed, type Event, type TurnCaptured } from '@instar/events'
import { announceUpgrade, openSnapshots } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig, type Judge, type Scorer } from '@instar/scorer'
import { createTrainer, trainerConfig, verify, type Trainer } from '@instar/trainer'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { range } from '../kit/event-log/harness.ts'
import { kafkaLogs } from '../kit/kafka-logs.ts'
import { captured, type Said } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'
import { temporaryFolder } from '../kit/stack.ts'

const TURNS = 4
const EPISODES = 6
const settings = { batchSize: TURNS * EPISODES, batchMax: TURNS * EPISODES, staleness: 4 }
/** The episodes are the same questions again and again. */
const limits = { duplicates: 64, askedAlone: 64, contradictions: 0 }
const judge: Judge = {
  id: 'judge',
  needsNextState: true,
  judge: ({ answer }) => Promise.resolve({ value: answer.endsWith('0') ? -1 : 1, note: '', hint: null }),
}

/** One turn after another of a task; the answer ends in the place of the turn. */
const episode = (session: string, version: number): TurnCaptured[] => {
  const messages: Said[] = []
  return range(TURNS).map((place) => {
    messages.push({ role: 'user', content: `question ${place}` })
    const answer = `answer ${session} ${place}`
    const at = Date.now() + place
    const turn = captured({ session, messages: [...messages], answer, at, version, task: 'task' })
    messages.push({ role: 'assistant', content: answer })
    return turn
  })
}

/** By the last turn of the `n`-th episode of a group. */
const ended = ({ session, turn }: TurnCaptured, n: number): Event => ({
  type: 'SessionClosed',
  session,
  open: [turn],
  why: 'client',
  at: Date.now(),
  outcome: n % 2 === 0 ? 1 : -1,
})

test(
  'each group of episodes is one batch, also where a scorer stops between turns and outcome and where the trainer was away',
  { timeout: 180_000 },
  async () => {
    const { open, close } = await kafkaLogs('a')
    const folder = await temporaryFolder()
    const fatal: Error[] = []
    const running: { stop(): Promise<void> }[] = []
    const ports = { now: Date.now, onFatal: (error: Error) => void fatal.push(error) }
    const log = await open('watcher')
    await announceUpgrade(log, 'test', Date.now(), new AbortController().signal)
    const seen: Event[] = []
    let changed = Promise.withResolvers<void>()
    const watcher = await log.subscribe({
      topics: ['scores', 'updates', 'weights'],
      group: 'watcher',
      from: 'start',
      handle(records) {
        seen.push(...records.map((record) => decodeRecord(record).event))
        changed.resolve()
        changed = Promise.withResolvers()
      },
    })
    const until = async (type: Event['type'], count: number): Promise<void> => {
      while (seen.filter((event) => event.type === type).length < count) await changed.promise
    }
    const scorers: Scorer[] = []
    for (const name of ['scorer-1', 'scorer-2']) {
      const scorer = createScorer(
        { ...ports, log: await open(name), judges: [judge] },
        scorerConfig.parse({ ...settings, ...limits }),
      )
      scorers.push(scorer)
      running.push(scorer)
      await scorer.start()
    }
    const learning = { ...ports, model: SCRIPTED_MODEL, probes: NO_PROBES }
    const publisher = createPublisher(
      { ...learning, log: await open('publisher'), evaluator: new ScriptedLearner() },
      publisherConfig.parse({}),
    )
    running.push(publisher, watcher)
    await publisher.start()
    const startTrainer = async (name: string): Promise<Trainer> => {
      const snapshots = openSnapshots(join(folder.path, 'trainer'), { records: 1 })
      const trainer = createTrainer(
        { ...ports, log: await open(name), snapshots, learner: new ScriptedLearner(), model: SCRIPTED_MODEL },
        trainerConfig.parse({ ...settings, taskEpisodes: EPISODES, scoresAlone: true }),
      )
      running.push(trainer)
      await trainer.start()
      return trainer
    }
    const append = async (events: readonly Event[]): Promise<void> => {
      await log.append(events.map((event) => encodeEvent(event)))
    }
    let rounds = 0
    const groups: string[][] = []
    /** `meanwhile`: when the turns are scored, before the outcomes. */
    const round = async (meanwhile: () => Promise<unknown>): Promise<void> => {
      const head = rounds
      rounds += 1
      const episodes = range(EPISODES).map((n) => episode(`r${rounds}e${n}`, head))
      await append(episodes.flat())
      // The last turn has no next state.
      await until('TurnScored', rounds * EPISODES * (TURNS - 1))
      await meanwhile()
      await append(episodes.map((own, n) => ended(own.at(-1)!, n)))
      groups.push(episodes.flatMap((own) => own.map(({ turn }) => turn)).toSorted())
      await until('EpisodeEnded', rounds * EPISODES)
    }
    try {
      await round(() => Promise.resolve())
      const first = await startTrainer('trainer-1')
      assert.equal(first.state.reads, 'scores')
      await until('VersionPublished', 1)

      await round(() => scorers[0]!.stop())
      await until('VersionPublished', 2)
      await first.stop()

      await round(() => Promise.resolve())
      const second = await startTrainer('trainer-2')
      assert.equal(second.state.reads, 'scores')
      await until('VersionPublished', 3)
      for (const service of running) await service.stop()
      const batches = seen.filter((event): event is BatchSealed => event.type === 'BatchSealed')
      assert.deepEqual(
        batches.map(({ items }) => items.map(({ turn }) => turn).toSorted()),
        groups,
      )
      const report = await verify({ log, learner: new ScriptedLearner(), model: SCRIPTED_MODEL }, 'policy', null)
      assert.deepEqual([report.batches.length, report.ok, fatal], [3, true, []])
    } finally {
      for (const service of running) await service.stop()
      await close()
      await folder.remove()
    }
  },
)
