/**
 * What a setting of distillation does on SmolLM2-135M, in updates instead of minutes: each setting starts from the base and makes the
 * same number of updates, each from 16 first answers of its own head to the demo's people, on topics that its measurement
 * does not use. A person's words are not read: an answer that is not as wanted has a hint, in turn of the wordings that ship.
 */
import type { AdapterSha, Adapter, LearningEngine, Model, Sampling, StepSettings, TrainItem } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import { DEFAULTS_BY_SIZE } from '@instar/process'
import { trainerConfig } from '@instar/trainer'
import { join } from 'node:path'
import { FACTS } from '../cli/src/demo/wishes/facts.ts'
import { WISHES, type Wish } from '../cli/src/demo/wishes/people.ts'
import { questionAt } from '../cli/src/demo/wishes/topics.ts'
import { fetchSmolLM2 } from '../cli/src/smollm2.ts'
import { GENERAL_WORDINGS } from '../services/scorer/src/core/hints.ts'
import { withHint } from '@instar/dialects'
import { rehearsalItems } from '../services/trainer/src/shell/rehearsal.ts'
import { machine, rounded } from './machine.ts'

/** Shares of answers as wanted, mean tokens, and facts of the demo that the base and the version answer, before (`update` 0) and after. */
export type Row = {
  setting: string
  seed: number
  update: number
  short: number
  plain: number
  warm: number
  tokens: number
  facts: number
  factsKept: number
  /** Log-probability that the base's answers to the facts that it answers have lost, nats per token. */
  lost: number
  klParent: number
  klBase: number
  stepScale: number
  cpu: number
}
export type Report = { name: string; machine: string; rows: Row[] }

const TURNS = 16
const TOKENS = 64
const FACT_TOKENS = 24
/** Held-out questions for each person: the topics talked about last, of which the updates use the first. */
const MEASURED = 12
const MEASURED_FROM = 28
const HINTS: Readonly<Record<string, readonly string[]>> = {
  short: GENERAL_WORDINGS.shorter ?? [],
  plain: GENERAL_WORDINGS.unformatted ?? [],
  warm: GENERAL_WORDINGS.warmer ?? [],
}

const small = (): Partial<StepSettings> =>
  Object.fromEntries(
    DEFAULTS_BY_SIZE.flatMap(({ setting, small: value }) =>
      setting.startsWith('training.') && value !== null ? [[setting.slice('training.'.length), value]] : [],
    ),
  )
const sampled = (seed: number, maxTokens: number, temperature: number): Sampling => ({
  temperature,
  topP: 1,
  topK: 0,
  seed,
  maxTokens,
  stop: [],
})
const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
const messagesOf = ({ system, forms }: Wish, question: number) => [
  { role: 'system', content: system },
  { role: 'user', content: questionAt('talked', question, forms) },
]

type Ports = { learner: LearningEngine; model: Model }

const answersOf = async (
  { learner, model }: Ports,
  asked: readonly { role: string; content: string }[][],
  adapter: AdapterSha,
  sampling: Sampling,
) => {
  const prompts = asked.map((messages) => model.promptIds(messages, {}))
  const { completions } = await learner.evaluate({ prompts, adapter, references: [], sampling })
  return completions.map((completion, i) => ({ ...completion, prompt: prompts[i]! }))
}

const measure = async (ports: Ports, adapter: AdapterSha) => {
  const shares: Record<string, number> = {}
  let tokens = 0
  for (const wish of WISHES) {
    const asked = Array.from({ length: MEASURED }, (_, i) => messagesOf(wish, MEASURED_FROM + i))
    const answers = await answersOf(ports, asked, adapter, sampled(7, TOKENS, 0.7))
    shares[wish.name] = answers.filter(({ text }) => wish.satisfied(text)).length / MEASURED
    tokens += answers.reduce((sum, { ids }) => sum + ids.length, 0) / (MEASURED * WISHES.length)
  }
  const asked = FACTS.map(({ question }) => [{ role: 'user', content: question }])
  const answers = await answersOf(ports, asked, adapter, sampled(1, FACT_TOKENS, 0))
  return { shares, tokens, answers, facts: answers.map(({ text }, i) => FACTS[i]!.answer.test(text)) }
}
type Measured = Awaited<ReturnType<typeof measure>>

const lostSince = async ({ learner }: Ports, base: Measured, adapter: AdapterSha): Promise<number> => {
  let [lost, tokens] = [0, 0]
  for (const [i, { prompt, ids }] of base.answers.entries()) {
    if (!base.facts[i]) continue
    const scored = { prompt, completion: ids, temperature: 1 }
    const [before, now] = [
      await learner.score({ ...scored, adapter: null }),
      await learner.score({ ...scored, adapter }),
    ]
    lost += before.reduce((sum, one, at) => sum + one - now[at]!, 0)
    tokens += ids.length
  }
  return lost / tokens
}

/** The items of an update: first answers of the head, with the reward of who asked less the mean of that person's rewards. */
const talk = async ({ learner, model }: Ports, adapter: AdapterSha, seed: number, update: number) => {
  const turns = Array.from({ length: TURNS }, (_, i) => {
    const wish = WISHES[i % WISHES.length]!
    const messages = messagesOf(wish, (seed + update * TURNS + i) % MEASURED_FROM)
    return { wish, messages, hint: HINTS[wish.name]![(update * TURNS + i) % HINTS[wish.name]!.length]! }
  })
  const answers = await answersOf(
    { learner, model },
    turns.map(({ messages }) => messages),
    adapter,
    sampled(seed * 1_000 + update, TOKENS, 0.7),
  )
  const rewards = turns.map(({ wish }, i) => (wish.satisfied(answers[i]!.text) ? 1 : -1))
  const items: TrainItem[] = []
  for (const [i, { wish, messages, hint }] of turns.entries()) {
    const { ids, prompt } = answers[i]!
    const own = rewards.filter((_, at) => turns[at]!.wish === wish)
    items.push({
      prompt,
      completion: ids,
      behaviourLogprobs: [...(await learner.score({ prompt, completion: ids, adapter, temperature: 0.7 }))],
      temperature: 0.7,
      advantage: rewards[i]! - own.reduce((sum, one) => sum + one, 0) / own.length,
      hintPrompt: rewards[i]! > 0 ? null : model.promptIds(withHint(messages, hint), {}),
      subject: wish.requestUser,
    })
  }
  return items
}

/** As `rehearsalRows` in the settings of training. */
type Step = Partial<StepSettings> & { rehearsalRows?: number }

/** `steps`: the settings that are compared, each beside those of the model's size; `updates` of each. */
export const bench = async ({
  steps = [{ opdContrast: 1 }, { opdContrast: 2 }],
  updates = 2,
  seed = 905,
  logLine = () => undefined,
}: {
  steps?: readonly Step[]
  updates?: number
  seed?: number
  logLine?: (line: string) => void
} = {}): Promise<Report> => {
  const path = await fetchSmolLM2(join(import.meta.dirname, '../.cache'))
  const ports = { learner: await startLearning({ model: path, share: null }), model: await openModel(path) }
  const rows: Row[] = []
  try {
    const base = await measure(ports, null)
    const report = (setting: string, update: number, found: Measured, more: Partial<Row>): void => {
      rows.push({
        setting,
        seed,
        update,
        short: rounded(found.shares['short']!),
        plain: rounded(found.shares['plain']!),
        warm: rounded(found.shares['warm']!),
        tokens: rounded(found.tokens),
        facts: found.facts.filter(Boolean).length,
        factsKept: found.facts.filter((right, i) => right && base.facts[i]).length,
        lost: 0,
        klParent: 0,
        klBase: 0,
        stepScale: 1,
        cpu: 0,
        ...more,
      })
      logLine(JSON.stringify(rows.at(-1)))
    }
    report('base', 0, base, {})
    const heads = steps.map((): { adapter: Adapter | null; state: Uint8Array | null } => ({
      adapter: null,
      state: null,
    }))
    // Update by update, so that a run that is stopped compares equals.
    for (let update = 1; update <= updates; update++)
      for (const [at, step] of steps.entries()) {
        const head = heads[at]!
        const begin = cpuSeconds()
        const items = await talk(ports, head.adapter?.sha256 ?? null, seed, update)
        const { rehearsalRows = 0, ...changed } = step
        const settings = { ...trainerConfig.parse({}).step, ...small(), ...changed, seed }
        const record = {
          number: update,
          seed: seed * 1_009 + update,
          settings: { rehearsalRows, rehearsalWeight: settings.rehearsalWeight },
        }
        const rehearsed = await rehearsalItems(ports, record)
        const result = await ports.learner.step([...items, ...rehearsed], settings, head)
        const cpu = rounded(cpuSeconds() - begin)
        if (head.adapter) await ports.learner.unload(head.adapter.sha256)
        await ports.learner.load(result.adapter)
        heads[at] = { adapter: result.adapter, state: result.state }
        const { klParent = 0, klBase = 0, stepScale = 1 } = result.figures
        report(JSON.stringify(step), update, await measure(ports, result.adapter.sha256), {
          lost: rounded(await lostSince(ports, base, result.adapter.sha256)),
          klParent: rounded(klParent),
          klBase: rounded(klBase),
          stepScale: rounded(stepScale),
          cpu,
        })
      }
    return { name: 'teacher', machine: machine(), rows }
  } finally {
    await ports.learner.close()
  }
}
