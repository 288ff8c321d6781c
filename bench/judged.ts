/**
 * Turns that a slow judge is asked about where twice as many arrive as updates take, with and without
 * `judge.waitingBatches`: scorer, trainer and publisher on a log in memory, models/tiny. In each round, which ends with the
 * verdict on an update, the served version answers as many questions as two batches have turns, and simulated users react.
 * The judge knows what the users' words mean, has an opinion on each, and counts what it is asked; the figures do not depend
 * on the machine's speed.
 */
import { decodeRecord, encodeEvent, weightLine, type Event } from '@instar/events'
import type { LearningEngine, Model, Sampling } from '@instar/engine/port'
import { openMemoryLog } from '@instar/log'
import { openModel, startLearning } from '@instar/policy'
import { createPublisher, probesOf, publisherConfig } from '@instar/publisher'
import { createScorer, hintOfWords, reactionModel, scorerConfig, type Judge } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createFirstError } from '../cli/src/demo/first-error.ts'
import { USERS, WRONG } from '../cli/src/demo/users.ts'
import { isCorrect, questions } from '../models/tiny/recipe/questions.ts'
import { pick, seeded } from '../models/tiny/recipe/random.ts'
import { captured, type Said } from '../test/kit/scored-history.ts'
import { machine, rounded } from './machine.ts'

const MODEL = join(import.meta.dirname, '../models/tiny')
const BATCH = 16
/** Turns of a round: 20/s where 10/s are learned from. */
const ARRIVE = 2 * BATCH
const ROUNDS = 6
const POLL_MS = 20

/** Rewards: of all answers of the first and of the last two rounds, 1 if right and as the user likes it, else −1. */
type Row = {
  waitingBatches: number
  turns: number
  judged: number
  surplus: number
  stale: number
  trained: number
  versions: number
  rejected: number
  rewardFirst: number
  rewardLast: number
}
type Options = { quick?: boolean; logLine?: (line: string) => void }

export const bench = async ({ quick = false, logLine = () => undefined }: Options = {}) => {
  const measuredOn = machine()
  const model = await openModel(MODEL)
  // An engine of its own answers, as where gateway and trainer are two processes.
  const [learner, serving] = [await startLearning({ model: MODEL }), await startLearning({ model: MODEL })]
  const rows: Row[] = []
  try {
    for (const waitingBatches of [0, 2]) {
      rows.push(await measure({ model, learner, serving }, waitingBatches, quick ? 2 : ROUNDS, logLine))
      logLine(JSON.stringify(rows.at(-1)))
    }
  } finally {
    await learner.close()
    await serving.close()
  }
  return { name: `judged turns, ${ARRIVE} for each update of ${BATCH}: models/tiny`, machine: measuredOn, rows }
}

const measure = async (
  { model, learner, serving }: { model: Model; learner: LearningEngine; serving: LearningEngine },
  waitingBatches: number,
  rounds: number,
  logLine: (line: string) => void,
): Promise<Row> => {
  const log = openMemoryLog()
  const firstError = createFirstError()
  const adapters = new Map<string, Parameters<LearningEngine['load']>[0]>()
  const keeping: LearningEngine = Object.assign(Object.create(learner) as LearningEngine, {
    async step(...args: Parameters<LearningEngine['step']>) {
      const result = await learner.step(...args)
      adapters.set(result.adapter.sha256, result.adapter)
      return result
    },
  })
  let judged = 0
  let verdicts = 0
  const slow: Judge = {
    id: 'bench',
    needsNextState: true,
    judge({ request, answer, next }) {
      judged += 1
      const words = next?.user ?? ''
      const value = USERS.some(({ thanks }) => thanks.includes(words)) ? 1 : -1
      return { value, note: '', hint: value > 0 ? null : hintOfWords(reactionModel(), words, { request, answer }) }
    },
  }
  const ports = { log, now: () => Date.now(), onFatal: firstError.onFatal }
  const sizes = { batchSize: BATCH, batchMax: BATCH }
  // The demo's questions are few: guards of repetitions are not measured here.
  const guards = { duplicates: 64, askedAlone: 64 }
  const scorer = createScorer({ ...ports, judges: [slow] }, scorerConfig.parse({ ...sizes, ...guards, waitingBatches }))
  const trainer = createTrainer({ ...ports, learner: keeping, model }, trainerConfig.parse(sizes))
  const publisher = createPublisher(
    { ...ports, evaluator: keeping, model, probes: probesOf(MODEL), onProgress: () => void (verdicts += 1) },
    publisherConfig.parse({}),
  )
  await Promise.all([scorer.start(), trainer.start(), publisher.start()])

  const asked = questions({ heldOut: true, split: 'demo', seed: 1, count: ARRIVE * rounds })
  const random = seeded(1)
  /** The mean reward of a round. */
  const talk = async (round: number): Promise<number> => {
    const line = weightLine(publisher.state.weights, 'policy')
    const [version, adapter] = [line.head, line.versions.get(line.head)?.adapter ?? null]
    const turns = asked.slice(ARRIVE * round, ARRIVE * (round + 1)).map((question, i) => {
      const user = USERS[i % USERS.length]!
      const messages: Said[] = [
        { role: 'system', content: user.system },
        { role: 'user', content: question.question },
      ]
      return { user, question, messages, prompt: model.promptIds(messages, {}) }
    })
    const { temperature } = model.defaults
    const sampling: Sampling = { temperature, topP: 1, topK: 0, seed: 1000 + round, maxTokens: 64, stop: [] }
    if (adapter !== null) await serving.load(adapters.get(adapter)!)
    const prompts = turns.map(({ prompt }) => prompt)
    const { completions } = await serving.evaluate({ prompts, adapter, references: [], sampling })
    let reward = 0
    for (const [i, { user, question, messages, prompt }] of turns.entries()) {
      const { ids, text } = completions[i]!
      const logprobs = [...(await serving.score({ prompt, completion: ids, adapter, temperature }))]
      const talked = { session: `r${round} ${i}`, subject: user.requestUser, version }
      const turn = {
        ...captured({ ...talked, messages, answer: text, at: Date.now() }),
        adapter,
        prompt: { from: null, prefix: 0, ids: prompt, length: prompt.length },
        sampling: { ...sampling, stop: [] },
        ids,
        logprobs,
      }
      const right = isCorrect(question, text)
      const words = pick(random, !right ? WRONG : user.satisfied(text) ? user.thanks : user.complaints)
      const said: Said[] = [...messages, { role: 'assistant', content: text }, { role: 'user', content: words }]
      const reaction = captured({ ...talked, messages: said, answer: 'Noted.', at: Date.now() })
      await log.append([turn, reaction].map((event) => encodeEvent(event)))
      reward += (right && user.satisfied(text) ? 1 : -1) / ARRIVE
    }
    if (adapter !== null) await serving.unload(adapter)
    return reward
  }
  const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await holds())) await delay(POLL_MS)
  }

  const rewards: number[] = []
  const run = async (): Promise<void> => {
    await until(() => weightLine(publisher.state.weights, 'policy').started !== null)
    for (let round = 0; round < rounds; round += 1) {
      rewards.push(await talk(round))
      await until(() => scorer.settled())
      await until(() => verdicts > round && weightLine(publisher.state.weights, 'policy').verdictCount > round)
      logLine(`round ${round + 1}: reward ${rounded(rewards[round]!)}, ${judged} turns judged`)
    }
    await until(() => scorer.settled())
  }
  await firstError.orFatal(run())
  await Promise.all([scorer.stop(), trainer.stop(), publisher.stop()])
  const events: Event[] = []
  for (const topic of ['scores', 'updates', 'weights'] as const)
    for await (const records of log.read(topic)) events.push(...records.map((record) => decodeRecord(record).event))
  await log.close()
  const count = (of: (event: Event) => boolean): number => events.filter(of).length
  const skips = (reason: string): number => count((event) => event.type === 'TurnSkipped' && event.reason === reason)
  const mean = (of: readonly number[]): number => rounded(of.reduce((sum, one) => sum + one, 0) / of.length)
  return {
    waitingBatches,
    turns: ARRIVE * rounds,
    judged,
    surplus: skips('surplus'),
    stale: skips('stale'),
    trained: verdicts * BATCH,
    versions: count((event) => event.type === 'VersionPublished'),
    rejected: count((event) => event.type === 'VersionRejected'),
    rewardFirst: mean(rewards.slice(0, 2)),
    rewardLast: mean(rewards.slice(-2)),
  }
}
