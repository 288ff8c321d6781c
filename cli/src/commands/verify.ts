import { openModel, startLearning } from '@instar/policy'
import { verify, type VerifyReport } from '@instar/trainer'
import { command, versionNumber } from '../command.ts'
import { bar } from '../demo/show.ts'
import { learnEngineOf } from '../engine.ts'
import { POLICY, withLog } from '../lines.ts'
import { table } from '../table.ts'

const text = (report: VerifyReport): string => {
  const rows = table(
    [
      { name: 'batch', of: (row) => row.batch },
      { name: 'version', of: (row) => row.version },
      { name: 'mode', of: (row) => row.mode },
      { name: 'holds', of: (row) => (row.ok ? 'yes' : 'NO') },
      { name: 'adapter', of: (row) => row.adapter?.slice(0, 12) },
    ],
    report.batches,
  )
  const { first, unreadable } = report
  const poison =
    unreadable.records === 0
      ? ''
      : `\n${unreadable.records} record${unreadable.records === 1 ? '' : 's'} that nobody can read, passed over as the services do; the first: ${unreadable.first[0]?.what}\n`
  return `${rows}${first ? `\nfirst difference: ${first.what}\n  topic ${first.topic}, key ${first.key}, ${first.type} ${first.record}\n` : `\neverything holds: ${report.batches.length} batches\n`}${poison}`
}

export default command('verify', {
  usage: '[N|all] [--digests] [--engine E]',
  help: `
Derives batches, advantages and, where the engine's fingerprint is the recorded one, weights again from the log and
holds them against what the log says. Works while the pipeline runs and while it does not.

  N          this version's batch alone (default all: every batch, rejected ones too)
  --digests  do not compute: hold the stored bytes against their records
  --engine E onnx, wasm or tfjs-node (default INSTAR_LEARN_ENGINE, else auto)

Mode of each row: recompute (the arithmetic again, bit for bit), digests (stored bytes), no_update (nothing to compute).
--json: {ok, policy, batches: [{batch, version, mode, ok, adapter, found, difference}], first,
unreadable: {records, first: [the first twenty]}}. Exit code 0 iff ok: a record that nobody can read is told, and is a difference where something needs it.`,
  options: { digests: { type: 'boolean' }, engine: { type: 'string' } },
  overrides: ['data', 'model'],
  positionals: [0, 1],
  async run({ config, values, positionals, answer, err, terminal, stop }) {
    const [which = 'all'] = positionals
    const version = which === 'all' ? null : versionNumber(which)
    const engine = learnEngineOf(values.engine, config.learnEngine, undefined)
    const report = await withLog(config, async (log) => {
      const model = await openModel(config.model)
      const learner = values.digests === true ? null : await startLearning({ model: config.model, engine })
      try {
        const onProgress = (done: number, total: number): void =>
          err(terminal ? `\r\x1b[2K${bar(done / total)} ${done}/${total}` : '')
        return await verify({ log, learner, model, onProgress, signal: stop }, POLICY, version)
      } finally {
        await learner?.close()
      }
    })
    if (terminal) err('\n')
    answer(report, () => text(report))
    return report.ok
  },
})
