import { writeCheckpoint, type CheckpointReport } from '@instar/log'
import { command, UsageError } from '../command.ts'
import { createCopyProgress, durationText, sizeText } from '../copy-progress.ts'
import { openWritable, POLICY } from '../log-access.ts'
import { CHECKPOINTED, foldsNamed } from '../stored-folds.ts'
import { table } from '../table.ts'

const reportText = (checkpoints: readonly CheckpointReport[], wallMs: number): string => {
  const rows = table(
    [
      { name: 'state', of: ({ name }) => name },
      { name: 'version', of: ({ version }) => version },
      { name: 'rows', of: ({ rows }) => rows },
      { name: 'digest', of: ({ digest }) => digest.slice(0, 16) },
      { name: 'file', of: ({ bytes }) => sizeText(bytes) },
      { name: 'written', of: ({ written }) => (written ? 'yes' : 'no, nothing is new') },
    ],
    checkpoints,
  )
  return `${rows}${durationText(wallMs)}; \`instar verify --checkpoints\` compares them with the log\n`
}

export default command('checkpoint', {
  usage: '[SERVICE…]',
  help: `
Folds the log up to its end and records the state of a service: its digest and positions on the log, its rows in a file of
INSTAR_CHECKPOINTS. A service that starts without a snapshot (a new machine, an emptied disk) begins there instead of at the
first record. Begins at the newest checkpoint itself. A run that is stopped, also by kill -9, leaves nothing half written.

A running pipeline writes them itself with INSTAR_CHECKPOINT_TURNS or INSTAR_CHECKPOINT_HOURS; on Kafka that of the gateway is
written by this command alone. The embedded log has one
writer: for this command stop \`instar up\` first. On Kafka the services may run, all of them this build or a later one
(\`instar setup --upgraded\`). Once a checkpoint is on a log, builds without this command cannot read it.

  SERVICE    ${CHECKPOINTED.map(({ service }) => service).join(', ')} (default: all but audit, from whose checkpoint
             \`verify --from-checkpoint\` starts)

--json: {checkpoints: [{name, version, digest, rows, positions: [{topic, partition, next, record}], file, bytes, at,
written}], wallMs}; services for which the log has no record are not listed`,
  options: {},
  overrides: ['data', 'archive'],
  positionals: [0, CHECKPOINTED.length],
  async run({ config, positionals, print, raw, terminal, stop }) {
    const unknown = positionals.find((name) => !CHECKPOINTED.some(({ service }) => service === name))
    if (unknown !== undefined) throw new UsageError(`${unknown} has no checkpoints`)
    const startedAt = performance.now()
    const log = await openWritable(config)
    const progress = createCopyProgress(raw.err, terminal)
    const checkpoints: CheckpointReport[] = []
    try {
      for (const fold of foldsNamed(positionals)) {
        const report = await writeCheckpoint(log, fold, {
          policy: POLICY,
          folder: config.checkpoints,
          kept: config.checkpointing.kept,
          now: () => Date.now(),
          observer: { onProgress: progress.show, signal: stop },
          signal: stop,
        })
        if (report) checkpoints.push(report)
      }
    } finally {
      progress.end()
      await log.close()
    }
    const wallMs = Math.round(performance.now() - startedAt)
    print({ checkpoints, wallMs }, () => reportText(checkpoints, wallMs))
  },
})
