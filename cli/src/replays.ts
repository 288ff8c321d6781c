/** A replay as its progress and its report, in this process: for `instar replay` and for a gateway that runs one. */
import { InstarError, type TurnsState } from '@instar/events'
import { createTurnReader, type EventLog } from '@instar/log'
import type { LearningEngine, Model } from '@instar/engine/port'
import { createJudges, JUDGE_NAMES, judgeTurn, readEvidence, scorerConfig } from '@instar/scorer'
import {
  replay,
  type Bound,
  type ReplayOptions,
  type ReplayPorts,
  type ReplayProgress,
  type ReplayReport,
} from '@instar/trainer'

export type ReplayLine = { progress: ReplayProgress } | { report: ReplayReport }
type ReplayRun = {
  log: EventLog
  learner: LearningEngine
  model: Model
  policy: string
  turns: TurnsState
  scorer: Parameters<typeof scorerConfig.parse>[0]
}

const now = (): number => Date.now()

/** Ends the work, too, when whoever reads the lines leaves. */
export const runReplay = async function* (
  run: ReplayRun,
  options: ReplayOptions,
  stopped: AbortSignal,
): AsyncGenerator<ReplayLine> {
  const left = new AbortController()
  const signal = AbortSignal.any([stopped, left.signal])
  const lines: ReplayLine[] = []
  let wake = (): void => undefined
  const ports: ReplayPorts = {
    log: run.log,
    learner: run.learner,
    model: run.model,
    now,
    signal,
    rescore: rescoring(run, signal),
    onProgress: (progress) => {
      lines.push({ progress })
      wake()
    },
  }
  let ended = false
  const work = replay(ports, run.policy, options).finally(() => {
    ended = true
    wake()
  })
  work.catch(() => undefined)
  try {
    while (!ended || lines.length > 0) {
      const line = lines.shift()
      if (line) yield line
      else
        await new Promise<void>((resolve) => {
          wake = resolve
          if (ended || lines.length > 0) resolve()
        })
    }
    yield { report: await work }
  } finally {
    left.abort()
  }
}

/** `--judge signals` and `--judge llm`: the scorer's own judges on what the log holds. */
const rescoring =
  (run: ReplayRun, signal: AbortSignal): NonNullable<ReplayPorts['rescore']> =>
  (name) => {
    const config = scorerConfig.parse(run.scorer)
    const known = JUDGE_NAMES.find((one) => one === name)
    const judges = known ? createJudges({ ...config, judges: [known] }, { now }) : []
    if (judges.length === 0) return null
    const reader = createTurnReader(run.log, (turn) => run.turns.turns.get(turn))
    return async (turn, said) => judgeTurn(judges, { feedback: null }, await readEvidence(reader, turn, said), signal)
  }

/** A version (`3`, `v3`) or a time that Date understands. */
export const boundOf = (text: string | undefined, name: string): Bound => {
  if (text === undefined) return null
  if (/^v?\d{1,9}$/.test(text)) return { version: Number(text.replace('v', '')) }
  const time = Date.parse(text)
  if (Number.isNaN(time))
    throw new InstarError('bad_request', `--${name} ${text}: neither a version nor a time`, { field: name })
  return { time }
}

/** `name=value`, each name once. */
export const settingsOf = (given: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    given.map((one) => {
      const at = one.indexOf('=')
      if (at < 1) throw new InstarError('bad_request', `--set ${one}: name=value is expected`, { field: 'set' })
      return [one.slice(0, at), one.slice(at + 1)]
    }),
  )

/** What a gateway was sent, checked: the same fields as the command's. */
export const replayOptionsOf = (fields: Readonly<Record<string, unknown>>): ReplayOptions => {
  const text = (name: string): string | undefined => (typeof fields[name] === 'string' ? fields[name] : undefined)
  const branch = text('branch')
  if (branch === undefined) throw new InstarError('bad_request', 'branch: a name is expected', { field: 'branch' })
  const set =
    typeof fields.set === 'object' && fields.set !== null
      ? Object.fromEntries(Object.entries(fields.set).map(([name, value]) => [name, String(value)]))
      : {}
  return {
    branch,
    from: boundOf(text('from'), 'from'),
    until: boundOf(text('until'), 'until'),
    set,
    judge: text('judge') ?? null,
  }
}
