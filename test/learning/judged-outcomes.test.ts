/** Conversations without a task, each ended by its client with a reward, beside a slow judge that is asked on demand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { decodeRecord, encodeEvent, weightLine, type Event, type TurnCaptured } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { captured, type Said } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

/** Conversations of a round, and turns of each. */
const CONVERSATIONS = 8
const TURNS = 5
const ROUNDS = 3

const conversation = (n: number, version: number, begun: number): TurnCaptured[] => {
  const messages: Said[] = []
  return Array.from({ length: TURNS }, (_, turn) => {
    messages.push({ role: 'user', content: `question ${turn}` })
    const answer = `answer ${n} ${turn}`
    const event = captured({ session: `s${n}`, messages: [...messages], answer, at: begun + 100 * turn + n, version })
    messages.push({ role: 'assistant', content: answer })
    return event
  })
}

/** Batches after each round. */
const run = async (waitingBatches: number): Promise<number[]> => {
  const log = openMemoryLog()
  const fatal: Error[] = []
  const ports = { log, now: () => Date.now(), onFatal: (error: Error) => void fatal.push(error) }
  const model = SCRIPTED_MODEL
  const settings = { batchSize: 4, batchMax: 4, staleness: 4 }
  let asked = 0
  const verdict = () => Promise.resolve({ value: (asked += 1) % 2 === 0 ? -1 : 1, note: '', hint: null })
  const judges = [{ id: 'slow', needsNextState: true, judge: verdict }]
  const limits = { waitingBatches, duplicates: 64, askedAlone: 64, contradictions: 0 }
  const scorer = createScorer({ ...ports, judges }, scorerConfig.parse({ ...settings, ...limits }))
  const trainer = createTrainer({ ...ports, learner: new ScriptedLearner(), model }, trainerConfig.parse(settings))
  const gate = { evaluator: new ScriptedLearner(), model, probes: NO_PROBES }
  const publisher = createPublisher({ ...ports, ...gate }, publisherConfig.parse({}))
  await Promise.all([scorer.start(), trainer.start(), publisher.start()])

  const ends = async (): Promise<string> => JSON.stringify(await log.ends(['turns', 'scores', 'updates', 'weights']))
  /** Nothing more comes of what is on the log. */
  const quiet = async (): Promise<void> => {
    for (;;) {
      const before = await ends()
      const settled = (await scorer.settled()) && (await trainer.settled()) && (await scorer.settled())
      if (settled && (await ends()) === before) return
      await setImmediate()
    }
  }
  const batches = async (): Promise<number> => {
    let count = 0
    for await (const records of log.read('updates'))
      count += records.filter((record) => decodeRecord(record).event.type === 'BatchSealed').length
    return count
  }

  const counts: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    await quiet()
    const { head } = weightLine(scorer.state.weights, 'policy')
    // Just now: the trainer waits for the scores of an episode until some time after its end.
    const begun = Date.now() - 100 * TURNS
    const talks = Array.from({ length: CONVERSATIONS }, (_, n) => conversation(round * CONVERSATIONS + n, head, begun))
    const said: Event[] = talks.flat().sort((a, b) => a.at - b.at)
    const closed = talks.map((turns, n): Event => {
      const { session, turn, at } = turns.at(-1)!
      return { type: 'SessionClosed', session, open: [turn], why: 'client', at: at + 1, outcome: n % 2 === 0 ? 1 : -1 }
    })
    await log.append([...said, ...closed].map((event) => encodeEvent(event)))
    await quiet()
    counts.push(await batches())
  }
  await Promise.all([scorer.stop(), trainer.stop(), publisher.stop()])
  await log.close()
  assert.deepEqual(fatal, [])
  return counts
}

test('conversations that end with a reward and name no task are trained on round by round, as without a limit on judging', async () => {
  const without = await run(0)
  assert.deepEqual(without, [5, 10, 15])
  assert.deepEqual(await run(2), without)
})
