import { command } from '../command.ts'
import { looksOf } from '../diagnosis.ts'
import { faultOf, type Finding } from '../doctor/finding.ts'

const LABEL: Readonly<Record<Finding['level'], string>> = { ok: 'ok', note: 'note', unsure: 'unsure', wrong: 'WRONG' }
const INDENT = ' '.repeat(20)

const line = (name: string, { level, found, todo }: Finding): string => `${LABEL[level].padEnd(6)} ${name.padEnd(12)} ${found}${todo === null ? '' : `\n${INDENT}→ ${todo}`}\n`

export default command('doctor', {
  usage: '',
  help: `
Looks at everything that a start needs, and at what is there, and says what to do about what is not as it should be.
Changes nothing. Exit code 0 when nothing is wrong.

On one machine: Node, data folder, every record of the log, model, engine, PostgreSQL, gateway, judge. With INSTAR_LOG
on Kafka also: brokers, topics, their settings, schemas and their compatibility, dead letters, migrations, how far the
projections are behind the log, what waits for the scorer, the trainer and the publisher, what groups committed, every
gateway behind INSTAR_HOST, clocks.

  ok      as it should be
  note    it works, and somebody should know
  unsure  it could not be looked at, which is no fault
  WRONG   it does not work, or will not for long

--json: {ok, checks: [{name, level, ok, unsure, found, todo}]}, level: ok, note, unsure or wrong`,
  options: {},
  overrides: ['data', 'model', 'host', 'port'],
  async run({ config, json, answer, out }) {
    const checks: (Finding & { name: string; ok: boolean; unsure: boolean })[] = []
    const { looks, close } = looksOf(config)
    try {
      for (const { name, of } of looks) {
        const findings = await of(config).catch((error: unknown) => [faultOf(error)])
        for (const finding of findings) {
          checks.push({ name, ok: finding.level !== 'wrong', unsure: finding.level === 'unsure', ...finding })
          if (!json) out(line(name, finding))
        }
      }
    } finally {
      await close()
    }
    const ok = checks.every((one) => one.ok)
    answer({ ok, checks }, () => '')
    return ok
  },
})
