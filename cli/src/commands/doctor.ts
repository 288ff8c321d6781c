import { ERRORS, InstarError } from '@instar/events/errors'
import { command } from '../command.ts'
import { requireEmbedded } from '../config.ts'
import { LOOKS } from '../diagnosis.ts'

export default command('doctor', {
  usage: '',
  help: `
Looks at everything that a start needs, and at what is there: Node, data folder, every record of the log, model,
engine, PostgreSQL, gateway, judge. Changes nothing. Exit code 0 when nothing is wrong.

--json: {ok, checks: [{name, ok, unsure, found, todo}]}; unsure: it could not be looked at, which is no fault`,
  options: {},
  overrides: ['data', 'model', 'host', 'port'],
  async run({ config, json, answer, out }) {
    requireEmbedded(config)
    const checks: { name: string; ok: boolean; unsure: boolean; found: string; todo: string | null }[] = []
    for (const { name, of } of LOOKS) {
      try {
        const found = await of(config)
        checks.push({ name, ok: true, unsure: typeof found !== 'string', found: typeof found === 'string' ? found : found.unsure, todo: null })
      } catch (error) {
        const known = error instanceof InstarError
        checks.push({ name, ok: false, unsure: false, found: `${known ? error.code : 'internal'}: ${error instanceof Error ? error.message : String(error)}`, todo: ERRORS[known ? error.code : 'internal'].todo })
      }
      const { ok, unsure, found, todo } = checks.at(-1)!
      if (!json) out(`${!ok ? 'WRONG ' : unsure ? 'unsure' : 'ok    '} ${name.padEnd(12)} ${found}${todo === null ? '' : `\n${' '.repeat(20)}${todo}`}\n`)
    }
    const ok = checks.every((one) => one.ok)
    answer({ ok, checks }, () => '')
    return ok
  },
})
