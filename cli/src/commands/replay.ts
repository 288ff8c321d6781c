import { initialTurns, InstarError, foldTurns, decodeReadable, type Logged, type TurnsEvent } from '@instar/events'
import { openModel, startLearning, type EngineChoice } from '@instar/policy'
import { logTarget } from '@instar/process'
import type { ReplayOptions, ReplayProgress, ReplayReport } from '@instar/trainer'
import { command, UsageError, type World } from '../command.ts'
import type { Config } from '../config.ts'
import { bar } from '../demo/show.ts'
import { learnEngineOf } from '../engine.ts'
import { askLines } from '../gateway.ts'
import { openWritable, POLICY } from '../lines.ts'
import { boundOf, runReplay, settingsOf, type ReplayLine } from '../replays.ts'

const seconds = (ms: number): string => (ms < 90_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`)

const show = (world: World, { phase, done, total, equal, elapsedMs, remainingMs }: ReplayProgress): void =>
  world.err(
    `${world.terminal ? '\r\x1b[2K' : ''}${bar(total > 0 ? done / total : 1)} ${phase === 'judging' ? 'turn' : 'batch'} ${done}/${total}  ${equal === null ? '' : equal ? 'equal so far  ' : 'DIFFERENT  '}${seconds(elapsedMs)}, ${seconds(remainingMs)} left${world.terminal ? '' : '\n'}`,
  )

/** In this process: the embedded log's only writer, for when no pipeline runs; one of many on Kafka. */
const alone = async function* (
  config: Config,
  engine: EngineChoice,
  options: ReplayOptions,
  signal: AbortSignal,
): AsyncGenerator<ReplayLine> {
  const log = await openWritable(config)
  try {
    const turns = initialTurns()
    for await (const records of log.read('turns'))
      for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
        foldTurns(turns, record as Logged<TurnsEvent>)
    const [model, learner] = await Promise.all([
      openModel(config.model),
      startLearning({ model: config.model, engine }),
    ])
    try {
      yield* runReplay(
        { log, learner, model, policy: POLICY, turns, scorer: config.judge === null ? {} : { llm: config.judge } },
        options,
        signal,
      )
    } finally {
      await learner.close()
    }
  } finally {
    await log.close()
  }
}

export default command('replay', {
  usage: '--branch NAME [--from VERSION|TIME] [--until VERSION|TIME] [--set NAME=VALUE]… [--judge signals|llm]',
  help: `
Trains again from the log, onto a branch that never touches the version that serves. With unchanged settings the
recorded batches are computed again, and every adapter must come out bit for bit as it was. With changed settings, or
another judge, the turns are scored and sealed anew in log order.

  --branch NAME  name of the branch (letters, digits, dots, dashes); \`instar promote NAME\` serves its result
  --from X       begin at this version, or at the version that served at this time (default: the base)
  --until X      stop after this version, or at this time
  --set N=V      another setting: lr, epochs, opdWeight, klWeight, batchSize, …, loss=hybrid|binary|opd
  --judge J      score the joined turns again with this judge
  --engine E     onnx, wasm or tfjs-node (default INSTAR_LEARN_ENGINE, else auto), where no pipeline runs

--json: {branch, equal, mode, batches, versions, first, apart, adapter, wallMs}; equal is null with changed settings, and
where this engine is not the recorded one: mode is then tolerance, and apart says how far the adapters are.
Exit code 0 unless equal is false.`,
  options: {
    branch: { type: 'string' },
    from: { type: 'string' },
    until: { type: 'string' },
    set: { type: 'string', multiple: true },
    judge: { type: 'string' },
    engine: { type: 'string' },
  },
  overrides: ['host', 'port', 'data', 'model'],
  async run(call) {
    const { config, values, answer } = call
    if (values.branch === undefined) throw new UsageError('--branch NAME is missing')
    const options: ReplayOptions = {
      branch: values.branch,
      from: boundOf(values.from, 'from'),
      until: boundOf(values.until, 'until'),
      set: settingsOf(values.set ?? []),
      judge: values.judge ?? null,
    }
    const sent = {
      branch: values.branch,
      from: values.from,
      until: values.until,
      set: options.set,
      judge: values.judge,
    }
    let report = null as ReplayReport | null
    const take = (line: ReplayLine): void => {
      if ('progress' in line) show(call, line.progress)
      else report = line.report
    }
    let here = logTarget(config).manyWriters
    try {
      if (!here) for await (const line of askLines<ReplayLine>(config, '/admin/replay', sent, call.stop)) take(line)
    } catch (error) {
      if (!(error instanceof InstarError) || error.code !== 'not_running') throw error
      here = true
    }
    if (here)
      for await (const line of alone(
        config,
        learnEngineOf(values.engine, config.learnEngine, undefined),
        options,
        call.stop,
      ))
        take(line)
    if (call.terminal) call.err('\n')
    const done = report
    if (!done) throw new InstarError('no_reply', 'The replay ended without a report.')
    answer(
      done,
      () =>
        `branch ${done.branch}: ${done.batches} batches, ${done.versions} versions in ${seconds(done.wallMs)}; ${done.apart ? `another engine than the recorded one: no bits to compare; what the adapters learned is within ${done.apart.distance.toPrecision(2)} of the record (relative, farthest in batch ${done.apart.batch})` : done.equal === null ? 'settings changed, nothing to compare' : done.equal ? 'equal, bit for bit' : `DIFFERENT from batch ${done.first?.batch} on`}\n`,
    )
    return done.equal !== false
  },
})
