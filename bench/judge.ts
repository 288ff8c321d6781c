/**
 * Precision and recall of judges on the labelled cases of bench/judge/*.jsonl: the reactions judge and, if configured,
 * an OpenAI-compatible model. Fields and labels: bench/judge/README.md.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createJudges, judgeTurn, onlyJudge, scorerConfig, type Judge } from '@instar/scorer'
import { readSettings } from '@instar/process'
import { z } from 'zod'
import { hintKind, VALUE_WORDINGS } from '../services/scorer/src/core/hints.ts'
import { machine, median } from './machine.ts'

const label = z.union([z.literal(1), z.literal(-1), z.literal(0)])
const benchCase = z.object({
  id: z.string(),
  request: z.string(),
  answer: z.string(),
  next: z.object({ user: z.string(), tools: z.array(z.object({ name: z.string(), content: z.string() })) }),
  category: z.string(),
  lang: z.string(),
  label,
  wish: z.string().nullish(),
  /** By two independent labellers. */
  labels: z.tuple([label, label]).optional(),
  split: z.enum(['dev', 'sealed']),
})
export type BenchCase = z.infer<typeof benchCase>
export type Judgement = {
  truth: number
  value: number
  hint: string | null
  /** The author's, of a case with −1. */
  wish: string | null
  labels: BenchCase['labels']
}

export const FOLDER = join(import.meta.dirname, 'judge')

/** Throws, with file and line, for an invalid case. */
export const readCases = (folder = FOLDER): BenchCase[] =>
  globSync('*.jsonl', { cwd: folder })
    .toSorted()
    .flatMap((file) =>
      readFileSync(join(folder, file), 'utf8')
        .split('\n')
        .flatMap((line, i) => {
          if (line === '') return []
          const parsed = benchCase.safeParse(JSON.parse(line))
          if (!parsed.success) throw new Error(`${file}:${i + 1}: ${z.prettifyError(parsed.error)}`)
          return [parsed.data]
        }),
    )

/** Cohen's κ. Null without pairs, or if all labels are the same. */
export const kappa = (pairs: readonly (readonly [number, number])[]): number | null => {
  if (pairs.length === 0) return null
  const agreed = pairs.filter(([a, b]) => a === b).length / pairs.length
  const share = (by: 0 | 1, value: number): number => pairs.filter((pair) => pair[by] === value).length / pairs.length
  const chance = [-1, 0, 1].reduce((sum, value) => sum + share(0, value) * share(1, value), 0)
  return chance === 1 ? null : (agreed - chance) / (1 - chance)
}

/** Null if the labellers disagree: the case then counts for κ only. */
export const truthOf = ({ label: one, labels }: Pick<BenchCase, 'label' | 'labels'>): number | null =>
  labels === undefined ? one : labels[0] === labels[1] ? labels[0] : null

export type Row = {
  judge: string
  split: string
  category: string
  cases: number
  precision: number | null
  recall: number | null
  abstained: number
  signErrors: number
  hints: number | null
  hintsOfWished: number | null
  hintsRight: number | null
  kappa: number | null
}

const share = (part: number, whole: number): number | null => (whole === 0 ? null : Number((part / whole).toFixed(3)))

/** The wish that a hint in the scorer's own words fulfils; null: in other words. */
const wishIn = (hint: string): string | null => {
  const kind = hintKind(hint)
  if (kind !== null) return kind === 'unformatted' || kind === 'simpler' ? 'plainer' : kind
  return VALUE_WORDINGS.some((wording) => hint.startsWith(wording.split('…')[0]!)) ? 'fix_value' : null
}

/**
 * `hints`: share of the verdicts −1 that give one. `hintsOfWished`: share of the cases with a wish that a hint can name
 * that got one. `hintsRight`: of the hints in the scorer's own words, the share that is for the case's wish; for a case
 * without one none is. `abstained` and `signErrors`: of all cases.
 */
export const rowOf = (name: Pick<Row, 'judge' | 'split' | 'category'>, all: readonly Judgement[]): Row => {
  const opinions = all.filter(({ value }) => value !== 0)
  const right = opinions.filter(({ truth, value }) => truth === value).length
  const bad = opinions.filter(({ value }) => value < 0)
  const wished = all.filter(({ wish }) => wish !== null && wish !== 'other' && wish !== 'undo')
  const worded = all.flatMap(({ hint, wish }) => {
    const named = hint === null ? null : wishIn(hint)
    return named === null ? [] : [named === wish]
  })
  const agreement = kappa(all.flatMap(({ labels }) => (labels ? [labels] : [])))
  return {
    ...name,
    cases: all.length,
    precision: share(right, opinions.length),
    recall: share(right, all.filter(({ truth }) => truth !== 0).length),
    abstained: share(all.length - opinions.length, all.length) ?? 0,
    signErrors: share(opinions.filter(({ truth, value }) => truth === -value).length, all.length) ?? 0,
    hints: share(bad.filter(({ hint }) => hint !== null).length, bad.length),
    hintsOfWished: share(wished.filter(({ hint }) => hint !== null).length, wished.length),
    hintsRight: share(worded.filter(Boolean).length, worded.length),
    kappa: agreement === null ? null : Number(agreement.toFixed(3)),
  }
}

const judgeAll = async (
  judge: Judge,
  cases: readonly BenchCase[],
  concurrency: number,
): Promise<{ values: { value: number; hint: string | null }[]; ms: number }> => {
  const values: { value: number; hint: string | null }[] = []
  const times: number[] = []
  let next = 0
  const work = async (): Promise<void> => {
    for (let i = next++; i < cases.length; i = next++) {
      const { id, request, answer, next: nextState } = cases[i]!
      const tools = nextState.tools.map(({ content }) => content).join('\n')
      const evidence = { turn: id, request, answer, calls: false, next: { user: nextState.user, tools } }
      const startedAt = performance.now()
      const { reward, hint } = await judgeTurn([judge], { feedback: null }, evidence, new AbortController().signal)
      times.push(performance.now() - startedAt)
      values[i] = { value: Math.sign(reward ?? 0), hint }
    }
  }
  await Promise.all(Array.from({ length: concurrency }, work))
  return { values, ms: median(times) }
}

export type JudgeOptions = {
  quick?: boolean
  logLine?: (line: string) => void
  /** An OpenAI-compatible endpoint. Default: INSTAR_JUDGE_URL, if it is set. */
  url?: string | undefined
  model?: string | undefined
  /** `dev` or `sealed`: of its cases alone. Default: all. */
  split?: string | undefined
}

export const bench = async ({
  quick = false,
  logLine = () => undefined,
  url,
  model,
  split: only,
}: JudgeOptions = {}): Promise<{
  name: string
  machine: string
  rows: Row[]
}> => {
  const settings = readSettings(process.env, process.cwd()).judge
  const llm = url === undefined ? settings : { url, model: model ?? 'default', key: settings?.key ?? null }
  const config = scorerConfig.parse({ llm })
  const names = llm === null ? (['reactions'] as const) : (['reactions', 'llm'] as const)
  const cases = readCases().filter(({ split }, i) => (!quick || i % 10 === 0) && (only ?? split) === split)
  const rows: Row[] = []
  const ports = { now: () => Date.now(), logLine }
  for (const judge of names.flatMap((one) => createJudges(onlyJudge(config, one), ports))) {
    const { values, ms } = await judgeAll(judge, cases, judge.quick ? 1 : config.concurrency)
    logLine(`${judge.id}: ${cases.length} cases, median ${ms.toFixed(2)} ms`)
    for (const [split, of] of Map.groupBy(cases.keys(), (i) => cases[i]!.split)) {
      const judged = of.flatMap((i) => {
        const one = cases[i]!
        const { category, labels, wish = null } = one
        return [{ ...values[i]!, truth: truthOf(one), labels, category, wish }]
      })
      const row = (category: string, some: typeof judged): Row => {
        const agreed = some.flatMap((one) => (one.truth === null ? [] : [{ ...one, truth: one.truth }]))
        const pairs = some.flatMap(({ labels }) => (labels ? [labels] : []))
        const between = kappa(pairs)
        return {
          ...rowOf({ judge: judge.id, split, category }, agreed),
          kappa: between === null ? null : Number(between.toFixed(3)),
        }
      }
      rows.push(row('all', judged))
      for (const [category, some] of Map.groupBy(judged, (one) => one.category)) rows.push(row(category, some))
    }
  }
  return { name: 'judge', machine: machine(), rows }
}
