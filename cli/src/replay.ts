/** Runs a replay in this process and parses its options: for `instar replay` and for the gateway's /admin/replay. */
import { decodeReadable, InstarError, type LineStarted, type TurnsState } from '@instar/events'
import { createTurnReader, type EventLog } from '@instar/log'
import type { LearningEngine, Model } from '@instar/engine/port'
import {
  createJudges,
  foldClaim,
  judgeNamed,
  judgeTurn,
  onlyJudge,
  readEvidence,
  scorerConfig,
  settle,
  withAgreement,
  withNegation,
  type ClaimTable,
  type GatewayAddress,
  type Judged,
} from '@instar/scorer'
import {
  replay,
  type AuditStart,
  type Bound,
  type ReplayOptions,
  type ReplayPorts,
  type ReplayProgress,
  type ReplayReport,
} from '@instar/trainer'

/** An element of the stream of a replay; the report is the last one. */
export type ReplayLine = { progress: ReplayProgress } | { report: ReplayReport }

type ReplayRun = {
  log: EventLog
  learner: LearningEngine
  model: Model
  policy: string
  /** Every turn of the log, where a judge is asked. */
  turns: TurnsState
  scorer: Parameters<typeof scorerConfig.parse>[0]
  /** Where the base weights judge; absent: nowhere. */
  gateway?: () => Promise<GatewayAddress>
  /** The checkpoint from which the log is read; absent: from its start. */
  start?: AuditStart | undefined
}

const now = (): number => Date.now()

/** Aborting `stop` or returning from the generator ends the replay. Throws as `replay`. */
export const runReplay = async function* (
  run: ReplayRun,
  options: ReplayOptions,
  stop: AbortSignal,
): AsyncGenerator<ReplayLine> {
  const returned = new AbortController()
  const signal = AbortSignal.any([stop, returned.signal])
  const lines: ReplayLine[] = []
  let wake = (): void => undefined
  const ports: ReplayPorts = {
    log: run.log,
    learner: run.learner,
    model: run.model,
    now,
    signal,
    ...(run.start ? { start: run.start } : {}),
    rescore: createRescore(run, signal),
    onProgress: (progress) => {
      lines.push({ progress })
      wake()
    },
  }
  let ended = false
  const report = replay(ports, run.policy, options).finally(() => {
    ended = true
    wake()
  })
  report.catch(() => undefined)
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
    yield { report: await report }
  } finally {
    returned.abort()
  }
}

/** Scores turns with the scorer's own judges: `--judge reactions`, `--judge llm`, `--judge self`. Null for an unknown judge. */
const createRescore =
  (run: ReplayRun, signal: AbortSignal): NonNullable<ReplayPorts['rescore']> =>
  (name) => {
    const config = scorerConfig.parse(run.scorer)
    const judge = judgeNamed(name)
    const judges = judge ? createJudges(onlyJudge(config, judge), { now, gateway: run.gateway }) : []
    if (judges.length === 0) return null
    const reader = createTurnReader(run.log, (turn) => run.turns.turns.get(turn))
    // Values need the agreement of people on the branch, as on the line that it replays.
    const claims: ClaimTable = new Map()
    let judged = 0
    const started = startOf(run.log, run.policy)
    started.catch(() => undefined)
    return async (turn, related) => {
      const asked = run.turns.turns.get(turn)
      const opinion = await readEvidence(reader, turn, related).then(
        (evidence) => judgeTurn(judges, { feedback: null }, evidence, signal),
        // As in the scorer: what cannot be read says nothing about the answer.
        (error: unknown): Judged => {
          signal.throwIfAborted()
          if (error instanceof InstarError && error.retryable) throw error
          return { ...settle([]), reason: 'unreadable' }
        },
      )
      const judgement = withNegation(opinion, await started)
      if (!asked) return judgement
      const { verdicts, ...result } = withAgreement(claims, asked, judgement, config.agreement)
      foldClaim(claims, { verdicts, policy: asked.policy }, judged++)
      return { ...result, verdicts }
    }
  }

/** The record that began the policy's line; null: it is not on the log. */
const startOf = async (log: EventLog, policy: string): Promise<LineStarted | null> => {
  for await (const records of log.read('weights'))
    for (const record of records) {
      const event = decodeReadable(record)?.event
      if (event?.type === 'LineStarted' && event.policy === policy) return event
    }
  return null
}

/** Parses a version (`3`, `v3`) or a date that `Date.parse` accepts. `name`: of the option. Throws `bad_request`. */
export const parseBound = (text: string | undefined, name: string): Bound => {
  if (text === undefined) return null
  if (/^v?\d{1,9}$/.test(text)) return { version: Number(text.replace('v', '')) }
  const time = Date.parse(text)
  if (Number.isNaN(time))
    throw new InstarError('bad_request', `--${name} ${text} is neither a version (3) nor a time (2026-01-31T12:00Z)`, {
      field: name,
    })
  return { time }
}

/** Parses `NAME=VALUE`; of two settings with one name, the last counts. Throws `bad_request`. */
export const parseSettings = (settings: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    settings.map((setting) => {
      const equals = setting.indexOf('=')
      if (equals < 1)
        throw new InstarError('bad_request', `--set ${setting} is not of the form NAME=VALUE`, { field: 'set' })
      return [setting.slice(0, equals), setting.slice(equals + 1)]
    }),
  )

/** Parses the body of /admin/replay, which has the names of the command's options. Throws `bad_request`. */
export const parseReplayOptions = (fields: Readonly<Record<string, unknown>>): ReplayOptions => {
  const text = (name: string): string | undefined => (typeof fields[name] === 'string' ? fields[name] : undefined)
  const branch = text('branch')
  if (branch === undefined)
    throw new InstarError('bad_request', 'branch must be the name of the branch, a string', { field: 'branch' })
  const set =
    typeof fields.set === 'object' && fields.set !== null
      ? Object.fromEntries(Object.entries(fields.set).map(([name, value]) => [name, String(value)]))
      : {}
  return {
    branch,
    from: parseBound(text('from'), 'from'),
    until: parseBound(text('until'), 'until'),
    set,
    judge: text('judge') ?? null,
  }
}
