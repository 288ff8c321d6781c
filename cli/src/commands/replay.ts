import { initialTurns, InstarError } from '@instar/events'
import { openModel, startLearning, type EngineChoice } from '@instar/policy'
import { logTarget } from '@instar/process'
import type { AuditStart, ReplayOptions, ReplayProgress, ReplayReport } from '@instar/trainer'
import { streamAdmin } from '../admin-client.ts'
import { BARE_FROM_CHECKPOINT, checkpointText, FROM_CHECKPOINT, startOf } from '../checkpointed.ts'
import { command, UsageError, type Printing } from '../command.ts'
import type { Config } from '../config.ts'
import { parseLearnEngine } from '../engine.ts'
import { readTurns } from '../folded-turns.ts'
import { learningSettings } from '../learning-settings.ts'
import { openWritable, POLICY } from '../log-access.ts'
import { progressBar } from '../progress-bar.ts'
import { parseBound, parseSettings, runReplay, type ReplayLine } from '../replay.ts'

const durationText = (ms: number): string =>
  ms < 90_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`

const showProgress = (
  { raw, terminal }: Printing,
  { phase, done, total, equal, elapsedMs, remainingMs }: ReplayProgress,
): void => {
  const bar = progressBar(total > 0 ? done / total : 1)
  const unit = phase === 'judging' ? 'turn' : 'batch'
  const comparison = equal === null ? '' : equal ? 'equal so far  ' : 'DIFFERENT  '
  const line = `${bar} ${unit} ${done}/${total}  ${comparison}${durationText(elapsedMs)}, ${durationText(remainingMs)} left`
  raw.err(terminal ? `\r\x1b[2K${line}` : `${line}\n`)
}

/** Replays in this process. For an embedded log without a running pipeline, and for a log on Kafka. */
const replayInProcess = async function* (
  config: Config,
  engine: EngineChoice,
  options: ReplayOptions,
  start: AuditStart | null,
  signal: AbortSignal,
): AsyncGenerator<ReplayLine> {
  const log = await openWritable(config)
  const closers: (() => Promise<void>)[] = [() => log.close()]
  try {
    // Only a judge reads them here.
    const folded = options.judge === null ? null : await readTurns(log, null, await log.ends(['turns']))
    if (folded) closers.push(folded.close)
    const turns = folded?.turns ?? initialTurns()
    const [model, learner] = await Promise.all([
      openModel(config.model),
      startLearning({ model: config.model, engine }),
    ])
    closers.push(() => learner.close())
    yield* runReplay(
      {
        log,
        learner,
        model,
        policy: POLICY,
        turns,
        scorer: learningSettings(config).scorer,
        ...(start ? { start } : {}),
      },
      options,
      signal,
    )
  } finally {
    for (const close of closers.reverse()) await close()
  }
}

const comparisonText = ({ apart, equal, first }: ReplayReport): string => {
  if (apart)
    return `computed by another engine than recorded, so not compared bit for bit; the largest relative difference between the adapters is ${apart.distance.toPrecision(2)}, in batch ${apart.batch}`
  if (equal === null) return 'not compared, since settings or judge were changed'
  return equal ? 'equal, bit for bit' : `DIFFERENT from batch ${first?.batch} on`
}

const trustedText = ({ trusted }: ReplayReport): string =>
  trusted
    ? `The records before ${checkpointText(trusted)}, are known from it, and \`instar verify --checkpoints\` compares it with the log\n`
    : ''

const reportText = (report: ReplayReport): string =>
  `branch ${report.branch}: ${report.batches} batches, ${report.versions} versions in ${durationText(report.wallMs)}; ${comparisonText(report)}\n${report.proves === null ? '' : `${report.mode} proves: ${report.proves}\n`}${trustedText(report)}`

export default command('replay', {
  usage:
    '--branch NAME [--from VERSION|TIME] [--until VERSION|TIME] [--set NAME=VALUE]… [--judge reactions|llm|self] [--from-checkpoint[=RECORD]]',
  help: `
Trains again from the log, onto a branch; the served version does not change. With the recorded settings, the recorded
batches are computed again, and each adapter must equal the recorded one bit for bit. With changed settings or another
judge, the turns are scored and sealed again in the order of the log.

  --branch NAME  name of the branch (letters, digits, dots, dashes); \`instar promote NAME\` serves its result
  --from X       start at this version, or at the version that served at this time (default: the base)
  --until X      stop after this version, or at this time
  --set N=V      change a setting by its name in the settings file: training.epochs, training.loss, … (the section may
                 be left out; lr is training.learningRate)
  --judge J      score the joined turns again with this judge
  --from-checkpoint  take the state of the newest checkpoint of the audit (\`instar checkpoint audit\`), or of the one whose
                 record's id begins with RECORD, and read the log from there; not with --judge
  --engine E     onnx, wasm or tfjs-node (default INSTAR_LEARN_ENGINE, else auto); only if no pipeline runs

--json: {branch, equal, mode, proves, batches, versions, first, apart, trusted, adapter, wallMs}. equal is null with changed settings, and
with another engine than the recorded one: mode is then tolerance, and apart holds the difference of the adapters. trusted: the checkpoint of --from-checkpoint ({record, at, turns, batches, versions}), else null.
Exit code 0 unless equal is false`,
  options: {
    branch: { type: 'string' },
    from: { type: 'string' },
    until: { type: 'string' },
    set: { type: 'string', multiple: true },
    judge: { type: 'string' },
    engine: { type: 'string' },
    ...FROM_CHECKPOINT,
  },
  bare: BARE_FROM_CHECKPOINT,
  overrides: ['host', 'port', 'data', 'archive', 'model'],
  async run(invocation) {
    const { config, values, print, stop } = invocation
    if (values.branch === undefined) throw new UsageError('--branch NAME is required')
    const options: ReplayOptions = {
      branch: values.branch,
      from: parseBound(values.from, 'from'),
      until: parseBound(values.until, 'until'),
      set: parseSettings(values.set ?? []),
      judge: values.judge ?? null,
    }
    const start = startOf(config.checkpoints, values['from-checkpoint'])
    const body = {
      branch: values.branch,
      from: values.from,
      until: values.until,
      set: options.set,
      judge: values.judge,
      checkpoint: values['from-checkpoint'],
    }
    let report = null as ReplayReport | null
    const handle = (line: ReplayLine): void => {
      if ('progress' in line) showProgress(invocation, line.progress)
      else report = line.report
    }
    let inProcess = logTarget(config).manyWriters
    try {
      if (!inProcess)
        for await (const line of streamAdmin<ReplayLine>(config, '/admin/replay', body, stop)) handle(line)
    } catch (error) {
      if (!(error instanceof InstarError) || error.code !== 'not_running') throw error
      inProcess = true
    }
    if (inProcess) {
      const engine = parseLearnEngine(values.engine, config.learnEngine, undefined)
      for await (const line of replayInProcess(config, engine, options, start, stop)) handle(line)
    }
    if (invocation.terminal) invocation.err('\n')
    const result = report
    if (!result) throw new InstarError('no_reply', 'The replay ended without a report.')
    print(result, () => reportText(result))
    return result.equal !== false
  },
})
