import { InstarError } from '@instar/events/errors'
import type { Model } from '@instar/engine/port'
import { openModel } from '@instar/policy'
import { openLog } from '@instar/process'
import { resolve } from 'node:path'
import { command, UsageError, type Values } from '../command.ts'
import type { Config } from '../config.ts'
import { bar } from '../demo/show.ts'
import { importFiles, type ImportReport, type Progress } from '../importing/import.ts'
import { knownOf, NOTHING_KNOWN, type Known } from '../importing/known.ts'
import { hasLog, POLICY, withLog } from '../lines.ts'
import type { EventLog } from '@instar/log'

const OPTIONS = {
  'dry-run': { type: 'boolean' },
  rewards: { type: 'string' },
  key: { type: 'string' },
  'own-versions': { type: 'boolean' },
} as const

export default command('import', {
  usage: 'FILE… [--dry-run] [--rewards LOW:HIGH] [--key ID] [--own-versions]',
  help: `
Reads recorded conversations onto the log, as turns like those that the gateway captures: joined with their next states,
scored, shown. One JSON object per line, in one of these forms (docs/compatibility.md has every field):

  {"request": {"messages": […], …}, "response": {"choices": […]}, "session_id"?, "timestamp"?, "reward"?}
  {"messages": […], "tools"?, "session_id"?, "reward"?}      a conversation; each answer in it is a turn
  {"prompt_ids": […], "response_ids": […], …}                a step as Claw-R1 collects them; {"steps": […]} for several

What is not token-exact is not learned from, and says why: a turn needs its prompt's ids, the sampled ids, as many
log-probs, and the version of this policy that spoke. Rewards become explicit feedback. Ids come from the content:
importing a file again, or one that has grown, adds what is new. A line that cannot be read is told and left out.
The embedded log has one writer: stop the pipeline first. A log on Kafka may be in use.

  --dry-run           say what would be done
  --rewards LOW:HIGH  the numbers that mean the worst and the best (default -1:1); 0:1 makes a 0 a reproach
  --key ID            the sessions are those of this API key (its public id)
  --own-versions      version numbers in the files (policy_version) are this policy's, not another trainer's, and what is
                      token-exact was drawn by its engine: without this nothing of a file is learned from (not_sampled)

--json: {lines, sessions, turns, exact, trainable, feedback, there, repeated, not_trainable: {reason: count}, skipped:
[{file, line, reason}], dry_run, wallMs}. Exit code 0 iff every line could be read.`,
  options: OPTIONS,
  overrides: ['data', 'model'],
  positionals: [1, 10_000],
  async run({ config, cwd, positionals, values, answer, err, terminal, stop }) {
    const begin = performance.now()
    const dry = values['dry-run'] === true
    const { show, end } = progressLine(err, terminal)
    let report: ImportReport
    let model: Promise<Model | null> | null = null
    try {
      report = await withDestination(config, dry, (log, known) =>
        importFiles(
          positionals.map((path) => resolve(cwd, path)),
          {
            log,
            known,
            model: () => (model ??= modelOf(config.model)),
            now: Date.now,
            onProgress: show,
            signal: stop,
          },
          optionsOf(values),
        ),
      )
    } catch (cause) {
      if (stop.aborted)
        throw new InstarError('aborted', 'The import was given up; run it again for the rest.', {}, { cause })
      throw cause
    } finally {
      end()
    }
    for (const { file, line, reason } of report.skipped) err(`${file}:${line}: ${reason}\n`)
    answer({ ...report, dry_run: dry, wallMs: Math.round(performance.now() - begin) }, () => told(report, dry))
    return report.skipped.length === 0
  },
})

const optionsOf = (values: Values<typeof OPTIONS>) => {
  const [, from, to] =
    values.rewards === undefined ? [] : (/^(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)$/.exec(values.rewards) ?? [])
  if (values.rewards !== undefined && (from === undefined || Number(from) === Number(to)))
    throw new UsageError(`--rewards ${values.rewards} is not of the form LOW:HIGH`)
  if (values.key !== undefined && !/^[A-Za-z0-9-]{1,64}$/.test(values.key))
    throw new UsageError(`--key ${values.key} is no id of a key; \`instar keys list\` shows them`)
  return {
    policy: POLICY,
    key: values.key ?? null,
    ownVersions: values['own-versions'] === true,
    unsampled: values['own-versions'] === true,
    rewards: from === undefined ? null : { from: Number(from), to: Number(to) },
  }
}

type Use<T> = (log: EventLog | null, known: (sessions: ReadonlySet<string>) => Promise<Known>) => Promise<T>

/** The log is there, or made; a dry run reads the one that there is, if there is one. */
const withDestination = async <T>(config: Config, dry: boolean, use: Use<T>): Promise<T> => {
  if (dry)
    return hasLog(config)
      ? withLog(config, (log) => use(null, (sessions) => knownOf(log, POLICY, sessions)))
      : use(null, () => Promise.resolve(NOTHING_KNOWN))
  const log = await openLog(config, { name: 'instar import' })
  try {
    return await use(log, (sessions) => knownOf(log, POLICY, sessions))
  } finally {
    await log.close()
  }
}

/** Null where there is none to be read: ids then say nothing. */
const modelOf = (folder: string): Promise<Model | null> =>
  openModel(folder).catch((error: unknown) => {
    if (error instanceof InstarError) return null
    throw error
  })

/** Between two lines where there is no terminal; between two drawings where there is one. */
const LINE_MS = 5000
const DRAW_MS = 100

const progressLine = (
  err: (text: string) => void,
  terminal: boolean,
): { show(progress: Progress): void; end(): void } => {
  let toldAt = performance.now()
  return {
    show({ phase, share, what }) {
      if (performance.now() - toldAt < (terminal ? DRAW_MS : LINE_MS)) return
      toldAt = performance.now()
      const line = `${phase}  ${bar(share)} ${String(Math.floor(100 * share)).padStart(3)}%  ${what}`
      err(terminal ? `\r\x1b[2K${line}` : `${line}\n`)
    },
    end() {
      if (terminal) err('\r\x1b[2K')
    },
  }
}

const told = (
  {
    lines,
    sessions,
    turns,
    exact,
    trainable,
    feedback,
    there,
    repeated,
    not_trainable: reasons,
    skipped,
  }: ImportReport,
  dry: boolean,
): string => {
  const why = Object.entries(reasons)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, count]) => `${reason} ${count}`)
    .join(', ')
  return [
    `${lines} lines, ${sessions} sessions: ${turns} ${turns === 1 ? 'turn' : 'turns'} ${dry ? 'would be added' : 'added'} (${exact} token-exact, ${trainable} to learn from), ${feedback} rewards`,
    ...(there + repeated > 0 ? [`${there} turns were there already, ${repeated} came more than once`] : []),
    ...(why === '' ? [] : [`not learned from: ${why}`]),
    ...(skipped.length > 0 ? [`${skipped.length} lines left out`] : []),
    '',
  ].join('\n')
}
