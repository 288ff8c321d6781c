import { InstarError } from '@instar/events/errors'
import { holdsWeights, openBase, startLearning } from '@instar/policy'
import type { TrainingServer } from '@instar/tinker/port'
import { verifyCheckpoints } from '@instar/log'
import { trainingServer, verify, type VerifyReport } from '@instar/trainer'
import { BARE_FROM_CHECKPOINT, checkpointsText, FROM_CHECKPOINT, startOf, trustedText } from '../checkpointed.ts'
import { command, parseVersion, UsageError, type Invocation } from '../command.ts'
import type { Config } from '../config.ts'
import { createCopyProgress, createCountProgress } from '../copy-progress.ts'
import { parseLearnEngine } from '../engine.ts'
import { learningSettings } from '../learning-settings.ts'
import { POLICY, withLog } from '../log-access.ts'
import { CHECKPOINTED } from '../stored-folds.ts'
import { table } from '../table.ts'

const reportText = ({ batches, proves, first, unreadable, trusted }: VerifyReport): string => {
  const rows = table(
    [
      { name: 'batch', of: (row) => row.batch },
      { name: 'version', of: (row) => row.version },
      { name: 'mode', of: (row) => row.mode },
      { name: 'holds', of: (row) => (row.ok ? 'yes' : 'NO') },
      { name: 'adapter', of: (row) => row.adapter?.slice(0, 12) },
    ],
    batches,
  )
  const verdict = first
    ? `first difference: ${first.what}\n  topic ${first.topic}, key ${first.key}, ${first.type} ${first.record}\n`
    : `no difference: ${batches.length} batches\n`
  const skipped =
    unreadable.records === 0
      ? ''
      : `\n${unreadable.records} record${unreadable.records === 1 ? '' : 's'} cannot be decoded and ${unreadable.records === 1 ? 'was' : 'were'} skipped, as by the services; the first: ${unreadable.first[0]?.what}\n`
  const proven = Object.entries(proves)
    .map(([mode, what]) => `${mode} proves: ${what}\n`)
    .join('')
  return `${rows}\n${proven}${verdict}${trusted ? trustedText(trusted) : ''}${skipped}`
}

/** The training server of the settings. Throws `not_available` where there is none, and as `connectTrainer`. */
const serverOf = async (config: Config, signal: AbortSignal): Promise<TrainingServer> => {
  const server = trainingServer(learningSettings(config, holdsWeights(config.model) ? undefined : null).trainer)
  if (!server)
    throw new InstarError(
      'not_available',
      '--recompute computes on a training server, and INSTAR_TRAINER names none. Without it `verify` computes with the embedded engine.',
      { field: 'INSTAR_TRAINER' },
    )
  return server.connect(signal)
}

const OPTIONS = {
  digests: { type: 'boolean' },
  recompute: { type: 'boolean' },
  checkpoints: { type: 'boolean' },
  engine: { type: 'string' },
  ...FROM_CHECKPOINT,
} as const

const checkpoints = async ({ config, values, positionals, print, raw, terminal, stop }: Invocation<typeof OPTIONS>) => {
  const { digests, recompute, engine, 'from-checkpoint': from } = values
  if (positionals.length > 0 || digests || recompute || engine !== undefined || from !== undefined)
    throw new UsageError('--checkpoints takes no other argument')
  const progress = createCopyProgress(raw.err, terminal)
  const report = await withLog(config, async (log) => {
    try {
      return await verifyCheckpoints(log, CHECKPOINTED, {
        folder: config.checkpoints,
        observer: { onProgress: progress.show, signal: stop },
      })
    } finally {
      progress.end()
    }
  })
  print(report, () => checkpointsText(report))
  return report.ok
}

export default command('verify', {
  usage: '[N|all] [--digests | --recompute] [--engine E] [--from-checkpoint[=RECORD]] | --checkpoints',
  help: `
Derives batches and advantages from the log again, and computes the weights again if the engine's fingerprint is the
recorded one. Compares them with the records. The pipeline may be running.

  N          verify the batch of this version only (default all: every batch, those of rejected updates too)
  --digests  do not compute: compare the stored bytes with their records
  --recompute  computes the updates of a training server (INSTAR_TRAINER) again there: the recorded steps, from the
             parent's saved state, on a model of its own, which needs room for one more model
  --checkpoints  verify the checkpoints of \`instar checkpoint\` instead: fold the log from its start and compare the states
  --from-checkpoint  take the state of the newest checkpoint of the audit (\`instar checkpoint audit\`), or of the one whose record's
             id begins with RECORD, and read and verify only what is behind it; what was not looked at stands in the report
  --engine E onnx, wasm or tfjs-node (default INSTAR_LEARN_ENGINE, else auto)

Mode of each row: recompute (weights computed again, bit for bit), requests (of a training server: every request to it
made again, byte for byte), server (with --recompute: computed there again too),
digests (stored bytes; also for a model folder without weights), no_update (nothing to
compute). Below the table: what each proves.

--json: {ok, policy, batches: [{batch, version, mode, ok, adapter, found, difference, distance}], proves: {MODE: TEXT}, first,
unreadable: {records, first: [the first twenty]}, trusted}. trusted: what --from-checkpoint did not look at ({record, at, turns, batches, versions}), else null. Exit code 0 if ok. A record that cannot be decoded is reported; it is
a difference if a batch needs it. With --checkpoints: {ok, checkpoints: [{name, version, record, at, digest, rows, ok, file, what}],
first, unreadable: {records, first: [{topic, partition, offset}]}}; ok of a checkpoint is null where this build cannot fold its state, file is equal, differs, missing (older files are removed)
or not_read`,
  options: OPTIONS,
  bare: BARE_FROM_CHECKPOINT,
  overrides: ['data', 'archive', 'model'],
  positionals: [0, 1],
  async run(invocation) {
    const { config, values, positionals, print, err, raw, terminal, stop } = invocation
    if (values.checkpoints === true) return checkpoints(invocation)
    const [batches = 'all'] = positionals
    const version = batches === 'all' ? null : parseVersion(batches)
    const engine = parseLearnEngine(values.engine, config.learnEngine, undefined)
    const start = startOf(config.checkpoints, values['from-checkpoint'])
    const report = await withLog(config, async (log) => {
      const model = await openBase(config.model)
      const computes = values.digests !== true && values.recompute !== true && holdsWeights(config.model)
      const server = values.recompute === true ? await serverOf(config, stop) : null
      const learner = computes ? await startLearning({ model: config.model, engine }) : null
      try {
        const { show: onRead } = createCopyProgress(raw.err, terminal)
        const onProgress = createCountProgress('batches', raw.err, terminal)
        return await verify(
          {
            log,
            learner,
            model,
            ...(server ? { server } : {}),
            ...(start ? { start } : {}),
            onRead,
            onProgress,
            signal: stop,
          },
          POLICY,
          version,
        )
      } finally {
        await learner?.close()
        await server?.close()
      }
    })
    if (terminal) err('\n')
    print(report, () => reportText(report))
    return report.ok
  },
})
