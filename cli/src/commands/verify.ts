import { holdsWeights, openBase, startLearning } from '@instar/policy'
import { verify, type VerifyReport } from '@instar/trainer'
import { command, parseVersion } from '../command.ts'
import { parseLearnEngine } from '../engine.ts'
import { POLICY, withLog } from '../log-access.ts'
import { progressBar } from '../progress-bar.ts'
import { table } from '../table.ts'

const reportText = ({ batches, proves, first, unreadable }: VerifyReport): string => {
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
  return `${rows}\n${proven}${verdict}${skipped}`
}

export default command('verify', {
  usage: '[N|all] [--digests] [--engine E]',
  help: `
Derives batches and advantages from the log again, and computes the weights again if the engine's fingerprint is the
recorded one. Compares them with the records. The pipeline may be running.

  N          verify the batch of this version only (default all: every batch, those of rejected updates too)
  --digests  do not compute: compare the stored bytes with their records
  --engine E onnx, wasm or tfjs-node (default INSTAR_LEARN_ENGINE, else auto)

Mode of each row: recompute (weights computed again, bit for bit), requests (of a training server: every request to it
made again, byte for byte), digests (stored bytes; also for a model folder without weights), no_update (nothing to
compute). Below the table: what each proves.

--json: {ok, policy, batches: [{batch, version, mode, ok, adapter, found, difference}], proves: {MODE: TEXT}, first,
unreadable: {records, first: [the first twenty]}}. Exit code 0 if ok. A record that cannot be decoded is reported; it is
a difference if a batch needs it`,
  options: { digests: { type: 'boolean' }, engine: { type: 'string' } },
  overrides: ['data', 'model'],
  positionals: [0, 1],
  async run({ config, values, positionals: [batches = 'all'], print, err, terminal, stop }) {
    const version = batches === 'all' ? null : parseVersion(batches)
    const engine = parseLearnEngine(values.engine, config.learnEngine, undefined)
    const report = await withLog(config, async (log) => {
      const model = await openBase(config.model)
      const computes = values.digests !== true && holdsWeights(config.model)
      const learner = computes ? await startLearning({ model: config.model, engine }) : null
      try {
        const onProgress = (done: number, total: number): void =>
          err(terminal ? `\r\x1b[2K${progressBar(done / total)} ${done}/${total}` : '')
        return await verify({ log, learner, model, onProgress, signal: stop }, POLICY, version)
      } finally {
        await learner?.close()
      }
    })
    if (terminal) err('\n')
    print(report, () => reportText(report))
    return report.ok
  },
})
