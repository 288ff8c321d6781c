/**
 * Turns/s that trainer and publisher learn from, by size of batch: models/tiny, both on one log in memory, each with an
 * engine of its own, as in processes of their own. The turns are answers of the base to the demo's users with their
 * scores, all on the log beforehand.
 */
import { encodeEvent, written, type Event } from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
import type { LearningEngine, Model, Sampling } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import { createPublisher, probesOf, publisherConfig } from '@instar/publisher'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { availableParallelism, cpus } from 'node:os'
import { join } from 'node:path'
import { USERS } from '../cli/src/demo/users.ts'
import { isCorrect, questions } from '../models/tiny/recipe/questions.ts'
import { seeded } from '../models/tiny/recipe/random.ts'
import { captured } from '../test/kit/scored-history.ts'
import { honest } from '../test/series/series.ts'
import { machine, median, rounded } from './machine.ts'

const MODEL = join(import.meta.dirname, '../models/tiny')
/** With which the others are compared. */
const REFERENCE = 16
const SIZES = [8, REFERENCE, 32, 64, 128]
/** Answers that the base gives; turns beyond them repeat these in sessions of their own. */
const ANSWERS = 128
/** Praised turns that wait for another candidate, so that no batch takes them and the gate measures on them. */
const HELD_OUT = 16
/** The turns are all captured before the first update, and none may be stale. */
const NEVER_STALE = 1_000_000

/**
 * Medians of the batches. `ahead`: the next batch is computed while the gate measures the one before. `update`: sealed → computed,
 * `gate`: computed → verdict. CPU: of the whole process. Ratios: of batches of 16 that are not computed ahead.
 */
export type RateRow = {
  batch: number
  ahead: boolean
  turnsPerSecond: number
  ofBatch16: number
  cpuMsPerTurn: number
  cpuOfBatch16: number
  /** Share of the cores that other processes used. */
  others: number
  updateSeconds: number
  gateSeconds: number
  batches: number
  rejected: number
}
/** `busyMs`: CPU of all processes of the machine. */
type Moment = { at: number; cpuMs: number; busyMs: number }
type Timing = { turns: number; sealed: Moment; computed: Moment | null; verdict: Moment | null; accepted: boolean }

const moment = (): Moment => {
  const { user, system } = process.cpuUsage()
  const busyMs = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0)
  return { at: performance.now(), cpuMs: (user + system) / 1000, busyMs }
}

type Answer = {
  turn: (session: string, more: object) => Event & { type: 'TurnCaptured' }
  score: ReturnType<typeof honest>
  messages: readonly { role: 'system' | 'user'; content: string }[]
}

/** Answers of the base with the feedback of the demo's users. */
const answersOf = async (learner: LearningEngine, model: Model): Promise<Answer[]> => {
  const random = seeded(1)
  const asked = questions({ heldOut: true, split: 'demo', seed: 1, count: ANSWERS }).map((question, i) => {
    const user = USERS[i % USERS.length]!
    const messages = [
      { role: 'system', content: user.system },
      { role: 'user', content: question.question },
    ] as const
    return { user, question, messages, prompt: model.promptIds(messages, {}) }
  })
  const { temperature } = model.defaults
  const sampling: Sampling = { temperature, topP: 1, topK: 0, seed: 1, maxTokens: 64, stop: [] }
  const prompts = asked.map(({ prompt }) => prompt)
  const { completions } = await learner.evaluate({ prompts, adapter: null, references: [], sampling })
  const answers: Answer[] = []
  for (const [i, { user, question, messages, prompt }] of asked.entries()) {
    const { ids, text } = completions[i]!
    const logprobs = [...(await learner.score({ prompt, completion: ids, adapter: null, temperature }))]
    const right = isCorrect(question, text)
    const { expect } = question
    answers.push({
      messages,
      score: honest({ user, question: question.question, expect, text, right, random }),
      turn: (session, more) => ({
        ...captured({ session, messages, answer: text, at: 1_700_000_000_000, subject: user.requestUser }),
        prompt: { from: null, prefix: 0, ids: prompt, length: prompt.length },
        sampling: { ...sampling, stop: [] },
        ids,
        logprobs,
        ...more,
      }),
    })
  }
  return answers
}

const scoreOf = (turn: Event & { type: 'TurnCaptured' }, { reward, hint }: Answer['score']): Event => ({
  type: 'TurnScored',
  reward,
  judge: 'bench',
  hint: hint === null ? null : written(hint),
  hintJudge: hint === null ? null : 'bench',
  turn: turn.turn,
  session: turn.session,
  policy: 'policy',
  version: 0,
  subject: turn.subject,
  verdicts: [],
  cause: turn.turn,
  rank: null,
  at: turn.at,
})

export type Report = { name: string; machine: string; rows: RateRow[] }
type Options = {
  quick?: boolean
  rounds?: number | undefined
  sizes?: readonly number[]
  logLine?: (line: string) => void
}

export const bench = async (options: Options = {}): Promise<Report> => {
  const measuredOn = machine()
  return { name: 'learner: models/tiny', machine: measuredOn, rows: await measure(options) }
}

/** Interleaved rounds of all sizes on one line. */
const measure = async ({ quick = false, rounds, sizes, logLine = () => undefined }: Options = {}): Promise<
  RateRow[]
> => {
  const model = await openModel(MODEL)
  const [learner, evaluator] = [await startLearning({ model: MODEL }), await startLearning({ model: MODEL })]
  const log: EventLog = openMemoryLog()
  const answers = await answersOf(learner, model)
  let sessions = 0
  const append = async (count: number, chosen: readonly Answer[], more: object = {}): Promise<void> => {
    const turns = Array.from({ length: count }, () => {
      const answer = chosen[sessions % chosen.length]!
      return { answer, turn: answer.turn(`session ${sessions++}`, more) }
    })
    await log.append(turns.map(({ turn }) => encodeEvent(turn)))
    await log.append(turns.map(({ turn, answer }) => encodeEvent(scoreOf(turn, answer.score))))
  }
  const praised = answers.filter(({ score }) => score.reward > 0)
  await append(HELD_OUT, praised, { candidates: 2 })

  let timings: Timing[] = []
  let done = Promise.withResolvers<void>()
  let wanted = 0
  const onFatal = (error: Error): void => done.reject(error)
  const now = (): number => Date.now()
  const publisher = createPublisher(
    {
      log,
      evaluator,
      model,
      probes: probesOf(MODEL),
      now,
      onFatal,
      onProgress({ phase }) {
        // A batch computed ahead may be sealed before the verdict of the one before it is told here.
        const timing = timings.find(({ verdict }) => verdict === null)!
        timing.verdict = moment()
        timing.accepted = phase === 'published'
        if (timings.filter(({ verdict }) => verdict !== null).length >= wanted) done.resolve()
      },
    },
    publisherConfig.parse({}),
  )
  await publisher.start()
  logLine('the gate asks the base its probes')

  /** `batches` batches of `size` turns, one after the other. */
  const learn = async (size: number, batches: number, ahead: boolean): Promise<Timing[]> => {
    await append(size * batches, answers)
    timings = []
    wanted = batches
    done = Promise.withResolvers<void>()
    const trainer = createTrainer(
      {
        log,
        learner,
        model,
        now,
        onFatal,
        ahead: true,
        onProgress({ phase, reason }) {
          if (phase === 'sealed')
            timings.push({ turns: size, sealed: moment(), computed: null, verdict: null, accepted: false })
          else if (phase === 'computed') timings.at(-1)!.computed = moment()
          else done.reject(new Error(`an update failed: ${reason}`))
        },
      },
      trainerConfig.parse({ batchSize: size, batchMax: size, ahead, staleness: NEVER_STALE }),
    )
    await trainer.start()
    await done.promise
    await trainer.stop()
    return timings
  }

  try {
    await learn(REFERENCE, 1, false)
    const cases = (sizes ?? SIZES).flatMap((size) =>
      [false, true].map((ahead) => ({ size, ahead, runs: [] as Timing[][] })),
    )
    for (let round = 1; round <= (rounds ?? (quick ? 1 : 3)); round += 1)
      for (const { size, ahead, runs } of cases) {
        runs.push(await learn(size, size > 32 || quick ? 3 : 5, ahead))
        const { turnsPerSecond, cpuMsPerTurn, others } = rowOf(size, runs.slice(-1))
        logLine(
          `round ${round}: batches of ${size}${ahead ? ', ahead' : ''}: ${turnsPerSecond} turns/s, ${cpuMsPerTurn} ms CPU a turn, others ${others}`,
        )
      }
    const rows = cases.map(({ size, ahead, runs }) => ({ ahead, ...rowOf(size, runs) }))
    const reference = rows.find(({ batch, ahead }) => batch === REFERENCE && !ahead) ?? rows[0]!
    return rows.map((row) => ({
      ...row,
      ofBatch16: rounded(row.turnsPerSecond / reference.turnsPerSecond),
      cpuOfBatch16: rounded(row.cpuMsPerTurn / reference.cpuMsPerTurn),
    }))
  } finally {
    await publisher.stop()
    await learner.close()
    await evaluator.close()
    await log.close()
  }
}

/** Rates are medians of the runs, each from its first batch to its last verdict; seconds are medians of all batches. */
const rowOf = (
  batch: number,
  runs: readonly (readonly Timing[])[],
): Omit<RateRow, 'ahead' | 'ofBatch16' | 'cpuOfBatch16'> => {
  const all = runs.flat()
  const whole = runs.map((run) => {
    const [from, to] = [run[0]!.sealed, run.at(-1)!.verdict!]
    const turns = run.length * batch
    const [ms, cpuMs] = [to.at - from.at, to.cpuMs - from.cpuMs]
    const others = (to.busyMs - from.busyMs - cpuMs) / (ms * availableParallelism())
    return { perSecond: (1000 * turns) / ms, cpuMs: cpuMs / turns, others }
  })
  return {
    batch,
    turnsPerSecond: rounded(median(whole.map(({ perSecond }) => perSecond))),
    cpuMsPerTurn: rounded(median(whole.map(({ cpuMs }) => cpuMs))),
    others: rounded(median(whole.map(({ others }) => others))),
    updateSeconds: rounded(median(all.map(({ sealed, computed }) => (computed!.at - sealed.at) / 1000))),
    gateSeconds: rounded(median(all.map(({ computed, verdict }) => (verdict!.at - computed!.at) / 1000))),
    batches: all.length,
    rejected: all.filter(({ accepted }) => !accepted).length,
  }
}

if (import.meta.main) {
  const numbers = (flag: string): number[] | undefined => {
    const at = process.argv.indexOf(flag)
    return at < 0 ? undefined : process.argv[at + 1]!.split(',').map(Number)
  }
  const [sizes, rounds] = [numbers('--sizes'), numbers('--rounds')?.[0]]
  const logLine = (line: string): void => {
    process.stderr.write(`${line}\n`)
  }
  console.table(await measure({ ...(sizes ? { sizes } : {}), ...(rounds ? { rounds } : {}), logLine }))
}
