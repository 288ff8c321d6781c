import { InstarError } from '@instar/events/errors'
import { resolve } from 'node:path'
import { escapeControls, printableJson } from '@instar/process/printable'
import { command } from '../command.ts'
import { exportLines, type ExportReport } from '../importing/export.ts'
import { writeLines } from '../importing/write-lines.ts'
import { withLog } from '../log-access.ts'

export default command('export', {
  usage: 'FILE [--session ID]',
  help: `
Writes the turns of the log as JSON lines, one for each answer: {request, response, session_id, …} with token ids,
log-probs, feedback, task and outcome of the episode, in the form that \`instar import\` reads. Incomplete answers are left
out, and answers whose records are damaged; these are reported. FILE must not exist; - is standard output. The log may be in use.

  --session ID  export this session only

--json: {sessions, turns, aborted, unshown, feedback, outcomes, discarded, damaged, unreadable: [{turn, reason}]}; not with -.
aborted: incomplete answers; discarded: sessions whose episode was aborted; damaged: records that cannot be decoded.
Exit code 0 if every answer could be read`,
  options: { session: { type: 'string' } },
  overrides: ['data', 'archive'],
  positionals: [1, 1],
  async run({ config, cwd, positionals: [file], values, json, raw, err, print, stop }) {
    if (file === '-' && json)
      throw new InstarError('bad_request', 'With FILE - standard output holds the lines. Name a file for --json.', {
        field: 'FILE',
      })
    const report: ExportReport = {
      sessions: 0,
      turns: 0,
      aborted: 0,
      unshown: 0,
      feedback: 0,
      outcomes: 0,
      discarded: 0,
      damaged: 0,
      unreadable: [],
    }
    await withLog(config, async (log) => {
      const lines = () => exportLines(log, values.session ?? null, report)
      if (file === '-') for await (const line of await lines()) raw.out(printableJson(line))
      else await writeLines(resolve(cwd, file!), lines, stop)
    })
    for (const { turn, reason } of report.unreadable) err(`${escapeControls(`${turn} is left out: ${reason}`)}\n`)
    if (file === '-') err(reportText(report))
    else print(report, () => reportText(report))
    return report.unreadable.length + report.damaged === 0
  },
})

const reportText = (report: ExportReport): string => {
  const { turns, sessions, feedback, aborted, unshown, outcomes, discarded, damaged, unreadable } = report
  const lost =
    unreadable.length + damaged === 0
      ? ''
      : `${damaged} records cannot be decoded; ${unreadable.length} answers that need such a record are left out\n`
  return `${turns} turns of ${sessions} sessions (${outcomes} with an outcome, ${discarded} aborted), with ${feedback} feedback records; left out: ${aborted} incomplete answers, ${unshown} candidates that were not sent\n${lost}`
}
