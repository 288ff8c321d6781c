/**
 * Which judge judges where the settings leave it open (`auto`): at the first start of a line the base weights judge
 * labelled cases (calibration.jsonl); the outcome is on the log, beside the settings of the line.
 */
import { readFileSync } from 'node:fs'
import { InstarError } from '@instar/events'
import type { EventLog } from '@instar/log'
import { recordedSettings, recordSettings, type SettingValue } from '@instar/process'
import { z } from 'zod'
import { judgeOrder, onlyJudge, type ScorerConfig } from '../config.ts'
import { calibrated, calibrationText, type Calibration, type JudgedCase } from '../core/calibration.ts'
import type { Evidence } from '../core/judgement.ts'
import { JUDGES, type JudgePorts } from './judge-table.ts'
import { judgeTurn, type Judge } from './judges.ts'

/** The measurement ends after this time; cases without a verdict then count as too slow. */
const LIMIT_MS = 60_000
/** Smaller models cannot judge, and are not measured unless `auto` is set. */
const LEAST_PARAMETERS = 10_000_000
/** The name under which the outcome stands among the recorded settings. */
const RECORDED_AS = 'judge.calibration'

const labelled = z.object({
  id: z.string(),
  request: z.string(),
  answer: z.string(),
  next: z.object({ user: z.string(), tools: z.array(z.object({ content: z.string() })) }),
  label: z.union([z.literal(1), z.literal(-1), z.literal(0)]),
})
export type LabelledCase = z.infer<typeof labelled>

/** Some cases of bench/judge/dev.jsonl, eight of each label. */
export const calibrationCases = (): LabelledCase[] =>
  readFileSync(new URL('../../calibration.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => labelled.parse(JSON.parse(line)))

/** `parameters` of the model; null: unknown. */
export const isOpen = (config: ScorerConfig, parameters: number | null): boolean =>
  config.judges === null
    ? config.llm === null && parameters !== null && parameters > LEAST_PARAMETERS
    : judgeOrder(config).includes('auto')

/** With the chosen judge in the place that the settings left open. */
export const withChoice = (config: ScorerConfig, choice: Calibration['choice']): ScorerConfig => ({
  ...config,
  judges: (config.judges ?? ['auto' as const]).map((name) => (name === 'auto' ? choice : name)),
})

const judgesOf = (config: ScorerConfig, ports: JudgePorts): Judge[] =>
  judgeOrder(config).flatMap((name) => JUDGES[name](config, ports))

const recorded = z.object({ judge: z.string(), choice: z.enum(['self', 'reactions']) })
const selfOf = (config: ScorerConfig, ports: JudgePorts): Judge => JUDGES.self(onlyJudge(config, 'self'), ports)[0]!

/** The choice on the log for these settings of the judge; null: there is none. */
export const recordedChoice = async (
  log: EventLog,
  config: ScorerConfig,
  ports: JudgePorts,
): Promise<Calibration['choice'] | null> => {
  const text = (await recordedSettings(log, config.policy)).get('judge')?.settings[RECORDED_AS]
  const found = text === undefined ? null : recorded.safeParse(JSON.parse(text)).data
  return found && found.judge === selfOf(config, ports).id ? found.choice : null
}

type Measuring = {
  config: ScorerConfig
  ports: JudgePorts
  signal: AbortSignal
  cases?: readonly LabelledCase[]
  limitMs?: number
}

/** Null: the base gave no verdict at all, so nothing was measured. */
export const measureSelf = async (measuring: Measuring): Promise<Calibration | null> => {
  const { config, ports, signal, cases = calibrationCases(), limitMs = LIMIT_MS } = measuring
  const { now } = ports
  const ended = AbortSignal.any([signal, AbortSignal.timeout(limitMs)])
  // A vote that fails is not asked for again, and nothing is said of it.
  const alone = onlyJudge({ ...config, self: { ...config.self, giveUpMs: 0 } }, 'self')
  const self = selfOf(alone, { ...ports, logLine: undefined })
  const [reactions] = JUDGES.reactions(config, ports)
  const startedAt = now()
  const judged: JudgedCase[] = []
  let failed = 0
  const valueOf = async (judge: Judge, evidence: Evidence, until: AbortSignal): Promise<number | null> => {
    const { reward, reason } = await judgeTurn([judge], { feedback: null }, evidence, until)
    if (reason === 'judge_failed') failed += 1
    return reward
  }
  const waiting = [...cases]
  const work = async (): Promise<void> => {
    for (let one = waiting.shift(); one && !ended.aborted; one = waiting.shift()) {
      const { id, request, answer, next, label } = one
      const tools = next.tools.map(({ content }) => content).join('\n')
      const evidence = { turn: id, request, answer, calls: false, next: { user: next.user, tools } }
      const value = await valueOf(self, evidence, ended)
      judged.push({ truth: label, self: value, reactions: await valueOf(reactions!, evidence, signal) })
    }
  }
  await Promise.all(Array.from({ length: config.concurrency }, work)).catch((error: unknown) => {
    signal.throwIfAborted()
    if (!ended.aborted) throw error
  })
  signal.throwIfAborted()
  if (judged.length > 0 && failed === judged.length) return null
  return calibrated(judged, cases.length, (now() - startedAt) / 1000)
}

type Choosing = Measuring & { values: readonly SettingValue[]; who: 'up' | 'scorer' }

/**
 * Measures, records the outcome and says it in one line. Null: nothing was measured, and the next start tries again.
 * `values`: of the section, as `recordSettings` takes them.
 */
export const chooseJudge = async (log: EventLog, measuring: Choosing): Promise<Calibration['choice'] | null> => {
  const { config, ports, signal, values, who } = measuring
  const outcome = await measureSelf(measuring)
  if (outcome === null) {
    ports.logLine?.('The base weights gave no verdict on labelled cases: the reactions judge judges turns.')
    return null
  }
  const { id: judge } = selfOf(config, ports)
  const kept: SettingValue = {
    name: RECORDED_AS,
    value: { judge, ...outcome },
    origin: { from: 'environment', variable: 'INSTAR_JUDGE' },
  }
  const chosen = withChoice(config, outcome.choice)
  await recordSettings(log, {
    policy: config.policy,
    who,
    values: [...values.filter(({ name }) => name.startsWith('judge.')), kept],
    judges: () => judgesOf(chosen, ports).map(({ id }) => id),
    now: ports.now(),
    signal,
  })
  ports.logLine?.(calibrationText(outcome))
  return outcome.choice
}

/**
 * The configuration with which a scorer begins, and what to call once it has started: where nothing is on the log, that
 * measures beside the scorer's work and changes its judges. `parameters` as in `isOpen`.
 */
export const openJudge = async (
  log: EventLog,
  choosing: Choosing & { parameters: number | null },
): Promise<{ config: ScorerConfig; started(scorer: { useJudges(judges: readonly Judge[]): void }): void }> => {
  const { config, ports, signal, parameters } = choosing
  if (!isOpen(config, parameters)) return { config, started: () => undefined }
  const known = await recordedChoice(log, config, ports)
  if (known !== null) return { config: withChoice(config, known), started: () => undefined }
  return {
    config,
    started(scorer) {
      chooseJudge(log, choosing).then(
        (choice) => {
          if (choice === 'self' && !signal.aborted) scorer.useJudges(judgesOf(withChoice(config, choice), ports))
        },
        (error: unknown) => {
          if (!signal.aborted)
            ports.logLine?.(
              `The base weights were not measured as a judge (${error instanceof InstarError ? error.code : (error as Error).name}): the reactions judge judges turns.`,
            )
        },
      )
    },
  }
}
