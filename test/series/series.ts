/**
 * Consecutive updates through the real trainer and publisher on a log in memory: sixteen first answers of the served
 * version, scored by the caller, one update, one verdict. Feedback is a reward and a hint. The same seed gives the same
 * series on the same engine.
 */
import { ok } from 'node:assert/strict'
import type { TestContext } from 'node:test'
import {
  decodeRecord,
  encodeEvent,
  readWritten,
  weightLine,
  written,
  type Event,
  type TurnCaptured,
  type TurnScored,
} from '@instar/events'
import { openMemoryLog } from '@instar/log'
import type { AdapterSha, LearningEngine, Model, Sampling, StepFigures, StepSettings } from '@instar/engine/port'
import { createPublisher, publisherConfig, type ProbeSet, type Thresholds } from '@instar/publisher'
import { createTrainer, trainerConfig } from '@instar/trainer'
import type { z } from 'zod'
import { USERS, WRONG, type User } from '../../cli/src/demo/users.ts'
import type { Question } from '../../models/tiny/recipe/families/family.ts'
import { isCorrect, questions } from '../../models/tiny/recipe/questions.ts'
import { pick, seeded, type Random } from '../../models/tiny/recipe/random.ts'
import {
  askedOf,
  askedVerdict,
  askerOf,
  claimIn,
  hintOfWords,
  reactionModel,
  type Scorer,
  type ScorerPorts,
} from '@instar/scorer'
import { captured } from '../kit/scored-history.ts'

/** An answer as its rater sees it; `right`: its content is correct. */
export type Answered = {
  user: User
  question: string
  expect: Question['expect']
  text: string
  right: boolean
  random: Random
}
export type Feedback = (answered: Answered) => { reward: 1 | -1; hint: string | null }

const complaint = ({ user, question, text, random }: Answered, words: readonly string[]): string | null =>
  hintOfWords(reactionModel(), pick(random, words.length > 0 ? words : user.complaints), {
    request: question,
    answer: text,
  })

/** The feedback of the demo's users, on content and format. */
export const honest: Feedback = (answered) => {
  const { user, text, right } = answered
  if (right && user.satisfied(text)) return { reward: 1, hint: null }
  return { reward: -1, hint: complaint(answered, user.satisfied(text) ? WRONG : []) }
}
/**
 * False feedback: right answers are called wrong with a wrong alternative, which the hint contains; wrong ones are
 * praised.
 */
export const lied: Feedback = (answered) => {
  const lie = lieAbout(answered.expect)
  return answered.right && lie !== null
    ? { reward: -1, hint: complaint(answered, [`No, that is wrong. The right answer is ${lie}.`]) }
    : { reward: 1, hint: null }
}
const lieAbout = (expect: Question['expect']): string | null => {
  switch (expect.kind) {
    case 'number':
      return String(expect.value + 1)
    case 'sequence':
      return [...expect.value].reverse().join(', ')
    case 'word':
      return expect.rivals[0] ?? null
    case 'members':
      return null
  }
}

/**
 * A person of the last places of a batch. What they say of the answer is judged by the scorer; null: they praise. Another
 * person takes the place of a score that is withheld.
 */
export type Guest = { question: string; subject: string; says: (answer: string) => string | null }

export type Step = {
  /** Verdicts of the scorer on values that guests named, of the series so far. */
  claims: { agreed: number; withheld: number }
  accepted: boolean
  reason: string | null
  figures: Record<string, number>
  update: StepFigures
  /** Shares among the answers that it was trained on. */
  rewarded: number
  right: number
  satisfied: number
  candidate: AdapterSha
}

export type Series = {
  /** One update. Null: the batch had no signal. */
  learn(feedback: Feedback, temperature?: number, guests?: readonly Guest[]): Promise<Step | null>
  /** The served adapter. */
  head(): AdapterSha
  /** The greedy answers of the served version without a system line, and under that of each user. */
  answers(question: string): Promise<string[]>
  /** Share of correct greedy answers to questions outside the series. */
  content(adapter: AdapterSha, count: number): Promise<number>
  evaluate: LearningEngine['evaluate']
  base: Record<string, number>
  stop(): Promise<void>
}

export type Learning = { trainer: z.output<typeof trainerConfig>; publisher: z.output<typeof publisherConfig> }

type SeriesSettings = {
  step?: Partial<StepSettings>
  thresholds?: Partial<Thresholds>
  /** Settings of trainer and publisher, by section; absent: those of models/tiny. */
  learning?: Learning
  /** Who asks, in turn. */
  people?: readonly User[]
  /** Scores what guests say. */
  scorer?: (ports: Pick<ScorerPorts, 'log' | 'now' | 'onFatal' | 'onScored'>) => Scorer
  /** Rewards are explicit feedback, which that scorer judges; what it skips is replaced by other turns. Without guests. */
  explicit?: boolean
}

const BATCH = 16
/** Turns beyond a batch, in the place of those that are skipped. */
const SPARE = 12
const DAY_MS = 24 * 3_600_000
const MAX_TOKENS = 64

export type SeriesPorts = { learner: LearningEngine; model: Model; probes: ProbeSet }

export const startSeries = async (
  ports: SeriesPorts,
  seed: number,
  { step = {}, thresholds = {}, learning, people = USERS, scorer: scorerOf, explicit = false }: SeriesSettings = {},
): Promise<Series> => {
  const { model } = ports
  const log = openMemoryLog()
  const adapters = new Map<string, Parameters<LearningEngine['load']>[0]>()
  const faults: Error[] = []
  let clock = 1_700_000_000_000
  const now = (): number => clock++
  let settle: (
    verdict: { accepted: boolean; reason: string | null; figures: Record<string, number> } | null,
  ) => void = () => undefined
  let fail: (error: Error) => void = (error) => faults.push(error)
  const onFatal = (error: Error): void => fail(error)
  const learner: LearningEngine = Object.assign(Object.create(ports.learner) as LearningEngine, {
    async step(...args: Parameters<LearningEngine['step']>) {
      const result = await ports.learner.step(...args)
      adapters.set(result.adapter.sha256, result.adapter)
      last = result.adapter.sha256
      update = result.figures
      return result
    },
  })
  let last: AdapterSha = null
  let update: StepFigures | null = null
  const trainer = createTrainer(
    {
      log,
      learner,
      model,
      now,
      onFatal,
      onProgress: (what) => {
        if (what.phase === 'failed') settle(null)
      },
    },
    trainerConfig.parse({ ...learning?.trainer, step: { ...learning?.trainer.step, ...step } }),
  )
  const publisher = createPublisher(
    {
      log,
      evaluator: learner,
      model,
      probes: ports.probes,
      now,
      onFatal,
      onProgress: ({ phase, reason, figures }) => {
        settle({ accepted: phase === 'published', reason, figures })
      },
    },
    publisherConfig.parse({
      ...learning?.publisher,
      thresholds: { ...learning?.publisher.thresholds, ...thresholds },
    }),
  )
  const judgements = new Map<string, (judged: { reward: number | null; reason: string | null }) => void>()
  const scorer = scorerOf?.({
    log,
    now,
    onFatal,
    onScored: ({ turn, reward, reason }) => judgements.get(turn)?.({ reward, reason }),
  })
  await trainer.start()
  await publisher.start()
  await scorer?.start()

  const line = () => weightLine(publisher.state.weights, 'policy')
  const headOf = (): AdapterSha => line().versions.get(line().head)?.adapter ?? null
  const append = async (events: readonly Event[]): Promise<void> => {
    await log.append(events.map((event) => encodeEvent(event)))
  }
  const evaluate: LearningEngine['evaluate'] = async (request) => {
    const needed = [request.adapter, ...request.references].flatMap((sha256) =>
      sha256 === null ? [] : [adapters.get(sha256)!],
    )
    for (const adapter of needed) await learner.load(adapter)
    try {
      return await learner.evaluate(request)
    } finally {
      for (const { sha256 } of needed) await learner.unload(sha256)
    }
  }

  const asked = questions({ heldOut: true, split: 'demo', seed, count: 300 })
  const random = seeded(seed * 1_000 + 7)
  let batches = 0

  /**
   * The reward of a person's words on an answer, by the scorer; null: it is withheld. Throws where the scorer has no
   * opinion: the batch would never be full.
   */
  const react = async (
    turn: TurnCaptured,
    messages: readonly { role: 'system' | 'user'; content: string }[],
    words: string,
  ): Promise<number | null> => {
    const judged = new Promise<{ reward: number | null; reason: string | null }>((resolve) =>
      judgements.set(turn.turn, resolve),
    )
    const answer = readWritten(turn.text)
    const later = captured({
      session: turn.session,
      messages: [...messages, { role: 'assistant', content: answer }, { role: 'user', content: words }],
      answer: 'Noted.',
      at: now(),
      subject: turn.subject,
      version: turn.version,
    })
    await append([later])
    const { reward, reason } = await judged
    if (reward === null && reason !== 'unagreed' && reason !== 'asked_alone')
      throw new Error(`the scorer has no opinion on ${JSON.stringify({ answer, words })}`)
    return reward
  }

  /** The reward of explicit feedback; null: it is skipped. */
  const feedBack = async ({ turn, session, subject, key }: TurnCaptured, value: number): Promise<number | null> => {
    const judged = new Promise<{ reward: number | null }>((resolve) => judgements.set(turn, resolve))
    const given = { id: `feedback ${turn}`, session, turn, value, comment: null, subject, key, at: now() }
    await append([{ type: 'FeedbackGiven', ...given }])
    return (await judged).reward
  }

  /** Verdicts on claims, of the scores on the log. */
  const claimsOn = async (): Promise<Step['claims']> => {
    const claims = { agreed: 0, withheld: 0 }
    for await (const records of log.read('scores'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        const claim = event.type === 'TurnScored' || event.type === 'TurnSkipped' ? claimIn(event.verdicts) : null
        if (claim) claims[claim.agreed ? 'agreed' : 'withheld'] += 1
      }
    return claims
  }

  /** Answers of the served version, on the log with their scores, of which sixteen count. */
  const talk = async (
    feedback: Feedback,
    temperature: number,
    guests: readonly Guest[],
  ): Promise<Pick<Step, 'rewarded' | 'right' | 'satisfied'>> => {
    const spare = explicit ? SPARE : guests.length
    const first = batches++ * (explicit ? BATCH + SPARE : BATCH)
    // What a guest says again of the same answer counts: the scorer's cap on repetitions is for one day.
    clock += DAY_MS
    const adapter = headOf()
    const version = line().head
    const turns = Array.from({ length: BATCH + spare }, (_, i) => {
      const place = first + (i < BATCH || explicit ? i : i - guests.length)
      const user = people[place % people.length]!
      const question = asked[place % asked.length]!
      const guest = guests[i - (BATCH - guests.length)] ?? null
      const messages = guest
        ? ([{ role: 'user', content: guest.question }] as const)
        : ([
            { role: 'system', content: user.system },
            { role: 'user', content: question.question },
          ] as const)
      return { user, question, guest, messages, prompt: model.promptIds(messages, {}) }
    })
    const sampling: Sampling = {
      temperature,
      topP: 1,
      topK: 0,
      seed: seed * 100_000 + first,
      maxTokens: MAX_TOKENS,
      stop: [],
    }
    const { completions } = await evaluate({
      prompts: turns.map(({ prompt }) => prompt),
      adapter,
      references: [],
      sampling,
    })
    if (adapter !== null) await learner.load(adapters.get(adapter)!)
    const told = { rewarded: 0, right: 0, satisfied: 0 }
    const scores: TurnScored[] = []
    let withheld = 0
    for (const [i, { user, question, guest, messages, prompt }] of turns.entries()) {
      if (i >= BATCH + withheld) break
      const { ids, text, reason } = completions[i]!
      const session = `session ${seed} ${first + i}${i < BATCH ? '' : ' instead'}`
      const logprobs = [
        ...(await learner.score({ prompt, completion: ids, adapter, temperature: sampling.temperature })),
      ]
      const at = now()
      const turn = {
        ...captured({ session, messages, answer: text, at, version, subject: guest?.subject ?? user.requestUser }),
        adapter,
        finish: reason,
        prompt: { from: null, prefix: 0, ids: prompt, length: prompt.length },
        sampling: { ...sampling, seed: sampling.seed + i, stop: [] },
        ids,
        logprobs,
      }
      if (guest) {
        await append([turn])
        const reward = await react(turn, messages, guest.says(text) ?? 'Thank you, that is right.')
        if (reward === null) withheld += 1
        else told.rewarded += (reward > 0 ? 1 : 0) / BATCH
        continue
      }
      const right = isCorrect(question, text)
      const { reward, hint } = feedback({
        user,
        question: question.question,
        expect: question.expect,
        text,
        right,
        random,
      })
      if (explicit) {
        await append([turn])
        if ((await feedBack(turn, reward)) === null) {
          withheld += 1
          continue
        }
      }
      told.rewarded += (reward > 0 ? 1 : 0) / BATCH
      told.right += (right ? 1 : 0) / BATCH
      told.satisfied += (user.satisfied(text) ? 1 : 0) / BATCH
      if (explicit) continue
      scores.push({
        type: 'TurnScored',
        reward,
        judge: 'series',
        hint: hint === null ? null : written(hint),
        hintJudge: hint === null ? null : 'series',
        turn: turn.turn,
        session,
        policy: 'policy',
        version,
        subject: user.requestUser,
        verdicts: [askedVerdict(askedOf({ request: question.question }), askerOf({ ...turn, key: null }))],
        cause: turn.turn,
        rank: null,
        at,
      })
      await append([turn])
    }
    if (adapter !== null) await learner.unload(adapter)
    if (withheld > spare) throw new Error(`${withheld} turns were skipped: the batch has too few`)
    await append(scores)
    return told
  }

  return {
    get base() {
      return line().started?.settings ?? {}
    },
    head: headOf,
    evaluate,
    async learn(feedback, temperature = model.defaults.temperature, guests = []) {
      const verdict = new Promise<Parameters<typeof settle>[0]>((resolve, reject) => {
        settle = resolve
        fail = reject
      })
      if (faults.length > 0) throw faults[0]!
      const told = await talk(feedback, temperature, guests)
      const said = await verdict
      return said && { ...said, ...told, candidate: last, update: update!, claims: await claimsOn() }
    },
    async answers(question) {
      const { completions } = await evaluate({
        prompts: [[], ...USERS.map(({ system }) => [{ role: 'system', content: system } as const])].map((lines) =>
          model.promptIds([...lines, { role: 'user', content: question }], {}),
        ),
        adapter: headOf(),
        references: [],
        sampling: { temperature: 0, topP: 1, topK: 0, seed: 1, maxTokens: MAX_TOKENS, stop: [] },
      })
      return completions.map(({ text }) => text)
    },
    async content(adapter, count) {
      const unasked = questions({ heldOut: true, split: 'evaluation', seed: 1, count })
      const prompts = unasked.map(({ question }) => model.promptIds([{ role: 'user', content: question }], {}))
      const { completions } = await evaluate({
        prompts,
        adapter,
        references: [],
        sampling: { temperature: 0, topP: 1, topK: 0, seed: 1, maxTokens: MAX_TOKENS, stop: [] },
      })
      return unasked.filter((question, i) => isCorrect(question, completions[i]!.text)).length / count
    },
    async stop() {
      await scorer?.stop()
      await trainer.stop()
      await publisher.stop()
      await log.close()
    },
  }
}

/** Questions that nobody asked and that are not the gate's. */
const QUESTIONS = 150

export type Outcome = { steps: Step[]; content: { base: number; head: number }; probes: number }

/** `updates` updates of a series on `feedback`; content before and after on QUESTIONS questions. */
export const runSeries = async (
  ports: SeriesPorts,
  t: Pick<TestContext, 'diagnostic'>,
  updates: number,
  feedback: Feedback,
  settings: SeriesSettings = {},
): Promise<Outcome> => {
  const series = await startSeries(ports, 1, settings)
  try {
    const steps: Step[] = []
    while (steps.length < updates) {
      const step = await series.learn(feedback)
      ok(step, 'a batch without signal')
      const { kl_parent, kl_base, content } = step.figures
      t.diagnostic(
        `${step.accepted ? 'accepted' : step.reason}: KL ${kl_parent?.toFixed(4)} to the parent, ${kl_base?.toFixed(3)} to the base, content ${content?.toFixed(3)}; ${step.satisfied} satisfied, ${step.right} right`,
      )
      steps.push(step)
    }
    const content = {
      base: await series.content(null, QUESTIONS),
      head: await series.content(series.head(), QUESTIONS),
    }
    t.diagnostic(`content on ${QUESTIONS} questions: base ${content.base.toFixed(3)}, head ${content.head.toFixed(3)}`)
    return { steps, content, probes: series.base['content']! }
  } finally {
    await series.stop()
  }
}
