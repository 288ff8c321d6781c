import { InstarError } from '@instar/events/errors'
import { createWriteStream } from 'node:fs'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { command } from '../command.ts'
import { exportLines, type ExportReport } from '../importing/export.ts'
import { withLog } from '../lines.ts'

export default command('export', {
  usage: 'FILE [--session ID]',
  help: `
Writes the turns of the log as lines of JSON, one for each answer: {request, response, session_id, …} with ids,
log-probs and feedback, as \`instar import\` reads them. Answers that were cut are left out. FILE must not exist;
- writes to standard output. The log may be in use.

  --session ID  that session alone

--json: {sessions, turns, aborted, unshown, feedback} (not together with -)`,
  options: { session: { type: 'string' } },
  overrides: ['data'],
  positionals: [1, 1],
  async run({ config, cwd, positionals: [file], values, json, out, err, answer, stop }) {
    if (file === '-' && json)
      throw new InstarError('bad_request', 'Standard output holds the lines: name a file for --json.', {
        field: 'FILE',
      })
    const report: ExportReport = { sessions: 0, turns: 0, aborted: 0, unshown: 0, feedback: 0 }
    const told = (): string =>
      `${report.turns} turns of ${report.sessions} sessions, ${report.feedback} times feedback; ${report.aborted} answers that were cut and ${report.unshown} that nobody saw are left out\n`
    await withLog(config, async (log) => {
      const lines = await exportLines(log, values.session ?? null, report)
      if (file === '-') for await (const line of lines) out(line)
      else await toFile(resolve(cwd, file!), lines, stop)
    })
    if (file === '-') err(told())
    else answer(report, told)
  },
})

const toFile = async (path: string, lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> => {
  try {
    await pipeline(Readable.from(lines), createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal })
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    throw new InstarError(
      signal.aborted ? 'aborted' : 'bad_request',
      signal.aborted
        ? 'The export was given up.'
        : `${path} cannot be written: ${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message}.`,
      { field: 'FILE' },
      { cause },
    )
  }
}
