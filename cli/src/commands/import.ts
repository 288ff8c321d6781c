import { InstarError } from '@instar/events/errors'
import type { Model } from '@instar/engine/port'
import type { EventLog } from '@instar/log'
import { openModel } from '@instar/policy'
import { openLog } from '@instar/process'
import { resolve } from 'node:path'
import { escapeControls } from '@instar/process/printable'
import { command, UsageError, type OptionValues } from '../command.ts'
import type { Config } from '../config.ts'
import { NO_RECORDS, readExisting } from '../importing/existing.ts'
import { importFiles } from '../importing/import.ts'
import type { ImportOptions, ImportPorts, ImportProgress } from '../importing/ports.ts'
import type { ImportReport } from '../importing/report.ts'
import { hasLog, POLICY, withLog } from '../log-access.ts'
import { progressBar } from '../progress-bar.ts'

const OPTIONS = {
  'dry-run': { type: 'boolean' },
  rewards: { type: 'string' },
  key: { type: 'string' },
  'own-versions': { type: 'boolean' },
} as const

export default command('import', {
  usage: 'FILE… [--dry-run] [--rewards LOW:HIGH] [--key ID] [--own-versions]',
  help: `
Adds recorded conversations to the log, as turns like those that the gateway captures: joined, scored, shown. Each line
of a file is one JSON object, in one of these forms (docs/compatibility.md lists every field):

  {"request": {"messages": […], …}, "response": {"choices": […]}, "session_id"?, "timestamp"?, "reward"?}
  {"messages": […], "tools"?, "session_id"?, "reward"?}      a conversation; each answer in it is a turn
  {"prompt_ids": […], "response_ids": […], …}                a step as Claw-R1 collects them; {"steps": […]} for several

Only token-exact turns are trained on; the report counts the others by their reason. A turn is token-exact if the line
holds the ids of the prompt, the sampled ids, a log-prob for each, and the version of this policy that sampled them.
Rewards become explicit feedback; an outcome ends the session as an episode. Ids are derived from the content: importing a file again adds only what is new. A line
that cannot be read is reported and skipped. The embedded log has one writer: stop the pipeline first. A log on Kafka
may be in use.

  --dry-run           print the report, write nothing
  --rewards LOW:HIGH  the numbers of the worst and the best reward (default -1:1); with 0:1, a reward of 0 is negative
  --key ID            public id of the API key that owns the sessions
  --own-versions      the versions in the files (policy_version) are this policy's, and its engine sampled the
                      token-exact turns: without this option no turn of a file is trained on (not_sampled)

--json: {lines, sessions, turns, exact, trainable, feedback, outcomes, discarded, there, repeated, not_trainable:
{reason: count}, skipped: [{file, line, reason}], dry_run, wallMs}. Exit code 0 if every line could be read`,
  options: OPTIONS,
  overrides: ['data', 'archive', 'model'],
  positionals: [1, 10_000],
  async run({ config, cwd, positionals, values, print, err, terminal, stop }) {
    const startedAt = performance.now()
    const dryRun = values['dry-run'] === true
    const options = parseOptions(values)
    const { show, end } = createProgressLine(err, terminal)
    let report: ImportReport
    let model: Promise<Model | null> | null = null
    try {
      report = await withDestination(config, dryRun, (destination) =>
        importFiles(
          positionals.map((path) => resolve(cwd, path)),
          {
            ...destination,
            tokenizer: () => (model ??= openTokenizer(config.model)),
            now: Date.now,
            onProgress: show,
            signal: stop,
          },
          options,
        ),
      )
    } catch (cause) {
      if (stop.aborted)
        throw new InstarError('aborted', 'The import was aborted. Run it again to import the rest.', {}, { cause })
      throw cause
    } finally {
      end()
    }
    for (const { file, line, reason } of report.skipped) err(`${escapeControls(`${file}:${line}: ${reason}`)}\n`)
    print({ ...report, dry_run: dryRun, wallMs: Math.round(performance.now() - startedAt) }, () =>
      reportText(report, dryRun),
    )
    return report.skipped.length === 0
  },
})

/** Throws `UsageError`. */
const parseOptions = (values: OptionValues<typeof OPTIONS>): ImportOptions => {
  const [, from, to] =
    values.rewards === undefined ? [] : (/^(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)$/.exec(values.rewards) ?? [])
  if (values.rewards !== undefined && (from === undefined || Number(from) === Number(to)))
    throw new UsageError(`--rewards ${values.rewards} is not of the form LOW:HIGH, two different numbers`)
  if (values.key !== undefined && !/^[A-Za-z0-9-]{1,64}$/.test(values.key))
    throw new UsageError(`--key ${values.key} is not the id of a key; \`instar keys list\` prints the ids`)
  return {
    policy: POLICY,
    key: values.key ?? null,
    ownVersions: values['own-versions'] === true,
    unsampled: values['own-versions'] === true,
    rewards: from === undefined ? null : { from: Number(from), to: Number(to) },
  }
}

type Destination = Pick<ImportPorts, 'log' | 'existing'>

/** Opens the log, or creates it; a dry run reads the log, if there is one. */
const withDestination = async <T>(
  config: Config,
  dryRun: boolean,
  use: (destination: Destination) => Promise<T>,
): Promise<T> => {
  const destination = (readFrom: EventLog, log: EventLog | null): Destination => ({
    log,
    existing: (sessions) => readExisting(readFrom, POLICY, sessions),
  })
  if (dryRun)
    return hasLog(config)
      ? withLog(config, (log) => use(destination(log, null)))
      : use({ log: null, existing: () => Promise.resolve(NO_RECORDS) })
  const log = await openLog(config, { name: 'instar import' })
  try {
    return await use(destination(log, log))
  } finally {
    await log.close()
  }
}

/** Null for a model that cannot be opened: token ids then have no meaning here. */
const openTokenizer = (path: string): Promise<Model | null> =>
  openModel(path).catch((error: unknown) => {
    if (error instanceof InstarError) return null
    throw error
  })

/** Interval between two lines where the output is not a terminal, and between two drawings where it is. */
const LINE_INTERVAL_MS = 5000
const DRAW_INTERVAL_MS = 100

const createProgressLine = (
  err: (text: string) => void,
  terminal: boolean,
): { show(progress: ImportProgress): void; end(): void } => {
  let printedAt = performance.now()
  return {
    show({ phase, share, count }) {
      if (performance.now() - printedAt < (terminal ? DRAW_INTERVAL_MS : LINE_INTERVAL_MS)) return
      printedAt = performance.now()
      const line = `${phase}  ${progressBar(share)} ${String(Math.floor(100 * share)).padStart(3)}%  ${count}`
      err(terminal ? `\r\x1b[2K${line}` : `${line}\n`)
    },
    end() {
      if (terminal) err('\r\x1b[2K')
    },
  }
}

const reportText = (report: ImportReport, dryRun: boolean): string => {
  const { lines, sessions, turns, exact, trainable, feedback, outcomes, discarded, there, repeated, skipped } = report
  const reasons = Object.entries(report.not_trainable)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, count]) => `${reason} ${count}`)
    .join(', ')
  return [
    `${lines} lines, ${sessions} sessions: ${turns} ${turns === 1 ? 'turn' : 'turns'} ${dryRun ? 'would be added' : 'added'} (${exact} token-exact, ${trainable} trainable), ${feedback} rewards`,
    ...(outcomes + discarded > 0
      ? [`${outcomes} sessions end with an outcome, ${discarded} are aborted episodes`]
      : []),
    ...(there + repeated > 0 ? [`${there} turns were already on the log, ${repeated} were repeated in the files`] : []),
    ...(reasons === '' ? [] : [`not trainable: ${reasons}`]),
    ...(skipped.length > 0 ? [`${skipped.length} lines skipped`] : []),
    '',
  ].join('\n')
}
