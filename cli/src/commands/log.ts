import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import {
  behindOf,
  copyLog,
  followLog,
  withoutDamaged,
  type CopyReport,
  type FollowReport,
  type TopicBehind,
} from '@instar/log'
import { PARTITIONS_FORM, partitionsOf } from '@instar/process'
import { command, UsageError, type Invocation } from '../command.ts'
import { behindText, copyReportText, createCopyProgress, createFollowProgress } from '../copy-progress.ts'
import { openDestination, openSource, parseLogAddress, sameLog, type LogAddress } from '../log-addresses.ts'
import { setAside } from '../set-aside.ts'
import { warnOfDamaged } from '../warn-of-damaged.ts'

const OPTIONS = {
  from: { type: 'string' },
  to: { type: 'string' },
  partitions: { type: 'string' },
  registry: { type: 'string' },
  follow: { type: 'boolean' },
  'skip-damaged': { type: 'boolean' },
  at: { type: 'string' },
  why: { type: 'string' },
} as const

type LogInvocation = Invocation<typeof OPTIONS>

export default command('log', {
  usage:
    'copy --from LOG --to LOG [--partitions turns=64,…] [--follow] [--registry URL] [--skip-damaged] | behind --from LOG --to LOG [--registry URL] | set-aside --at "TOPIC PARTITION@OFFSET" --why TEXT',
  help: `
copy: copies a log into another one, with the same bytes, ids and times and the same order of each key. LOG is
embedded:FOLDER (a data folder, as in INSTAR_DATA), embedded (the folder of INSTAR_DATA) or kafka://host:port,…, which
\`instar setup\` has prepared.

The records of the destination are compared one by one. They must be the first records of the source; the copy appends
the others. So a copy that was stopped is completed by running it again, and a complete one is updated after the source
has grown. Any other destination is refused with the first record that differs. At the end both logs are read and
compared by digests of each key. The source may be in use: it is copied up to its end at the start of the copy.
No other process may write to the destination.

  --from LOG        the source; it is not changed
  --to LOG          the destination; an embedded one is created
  --partitions P    partition counts of the destination (default: those of the source)
  --follow          go on copying, and say every 5 s how many records the copy is behind. Stop every process that writes to
                    the source, then end this command with Ctrl-C (SIGINT, SIGTERM): it copies and compares the rest, and
                    ends once the source has not grown for 2 s. A source that grows for 20 s more: exit code 1, since
                    the copy would lack what its writers still write. Only what is new is read for that, however long the log
  --registry URL    schema registry of a log on Kafka (default INSTAR_REGISTRY)
  --skip-damaged    copy without the records of the source that do not match their checksums, and list them; otherwise the
                    copy ends at the first one (bad_record, with its position). Offsets after them are lower on the copy

behind: how many records of the source the copy lacks, by topic, from the ends of both logs. Reads no records but
announcements, at any time; after the services run on the copy it has more. Exit code 0 if it lacks none.

set-aside: copies a record of INSTAR_LOG on Kafka to the dead letters of its topic, so that readers skip it. For a record
of another program at which readers stop with unknown_schema or unknown_record; check first that INSTAR_REGISTRY is the
right registry, and that no newer build of Instar wrote it.

  --at POSITION     as the error names it: "turns 3@17"
  --why TEXT        the reason; the dead letter stores it

--json of copy: {topics: {turns: {records, bytes, digest}, …}, copied, skipped, equal, first, damaged, sourceGrew,
wallMs}; damaged: {records, first: [{topic, partition, offset}]}, with --skip-damaged alone; exit code 0 if equal. With
--follow: no digests, rounds: their number; exit code 0 if equal and the source did not grow. --json of behind: {behind, topics: {turns: {source, copy}, …}}.
--json of set-aside: {topic, partition, offset, why}`,
  options: OPTIONS,
  overrides: ['data', 'archive'],
  positionals: [1, 1],
  async run(invocation) {
    const [subcommand] = invocation.positionals
    if (subcommand === 'copy') return copy(invocation)
    if (subcommand === 'behind') return behind(invocation)
    if (subcommand === 'set-aside') return setRecordAside(invocation)
    throw new UsageError(`unknown subcommand: log ${subcommand}`)
  },
})

const setRecordAside = async ({ config, values, print, err }: LogInvocation): Promise<boolean> => {
  const record = await setAside(config, values, (line) => err(`${line}\n`))
  print(record, () => `${record.topic} ${record.partition}@${record.offset} is set aside: readers skip it\n`)
  return true
}

type CopyOptions = { from: LogAddress; to: LogAddress; partitions: Partial<Record<Topic, number>> }

/** Throws `UsageError`, `bad_request`. */
const parseCopyOptions = ({ config, cwd, values }: LogInvocation): CopyOptions => {
  if (values.from === undefined || values.to === undefined) throw new UsageError('--from LOG and --to LOG are required')
  const partitions = values.partitions === undefined ? {} : partitionsOf(values.partitions)
  if (partitions === null) throw new UsageError(`--partitions ${values.partitions} is not ${PARTITIONS_FORM}`)
  const registry = values.registry ?? config.registry
  const from = parseLogAddress(values.from, config, cwd, registry)
  const to = parseLogAddress(values.to, config, cwd, registry)
  if (sameLog(from, to))
    throw new InstarError('bad_request', 'The source and the destination are the same log.', { field: 'to' })
  return { from, to, partitions }
}

/** The records of the source that cannot be decoded, and so are not copied. */
const deadLettersOf = async (source: Awaited<ReturnType<typeof openSource>>, topic: Topic): Promise<number> => {
  let count = 0
  if ('deadLetters' in source) for await (const _ of source.deadLetters(topic)) count++
  return count
}

/** Resolves with whether the copy lacks no record. */
const behind = async (invocation: LogInvocation): Promise<boolean> => {
  const { from, to } = parseCopyOptions(invocation)
  const writeLine = (line: string): void => invocation.err(`${line}\n`)
  const source = await openSource(from, invocation.config.archive, writeLine)
  try {
    const destination = await openSource(to, null, writeLine)
    try {
      const topics = await behindOf(source, destination, (topic) => deadLettersOf(source, topic))
      const total = Object.values(topics).reduce((sum, topic) => sum + lackOf(topic), 0)
      invocation.print({ behind: total, topics }, () => behindText(topics, total))
      return total === 0
    } finally {
      await destination.close()
    }
  } finally {
    await source.close()
  }
}

const lackOf = ({ source, copy }: TopicBehind): number => Math.max(0, source - copy)

/** Resolves with whether the logs are equal, and nothing is missing that a copy that follows had to wait for. */
const copy = async (invocation: LogInvocation): Promise<boolean> => {
  const { print, err, terminal, stop, values } = invocation
  const { from, to, partitions } = parseCopyOptions(invocation)
  const writeLine = (line: string): void => err(`${line}\n`)
  const startedAt = performance.now()
  const source = await openSource(from, invocation.config.archive, writeLine)
  const skipping = values['skip-damaged'] === true ? withoutDamaged(source) : null
  try {
    const sourcePartitions = Object.fromEntries(TOPICS.map((topic) => [topic, source.partitions(topic)])) as Record<
      Topic,
      number
    >
    const destination = await openDestination(
      to,
      { ...sourcePartitions, ...partitions },
      { ...schemaTexts(), ...('schemas' in source ? source.schemas() : {}) },
      writeLine,
    )
    const progress = createCopyProgress(invocation.raw.err, terminal)
    const follows = values.follow === true
    let report: CopyReport | FollowReport
    try {
      const options = { from: skipping?.source ?? source, to: destination, onProgress: progress.show, signal: stop }
      report = follows
        ? await followLog({
            ...options,
            writersStopped: stop,
            onRound: createFollowProgress(invocation.raw.err, terminal, () => progress.end()),
          })
        : await copyLog(options)
    } finally {
      progress.end()
      await destination.close()
    }
    const damaged = skipping?.damaged()
    if (damaged) warnOfDamaged(damaged, writeLine, 'is not copied', 'are not copied')
    let deadLetters = 0
    for (const topic of TOPICS) deadLetters += await deadLettersOf(source, topic)
    if (deadLetters > 0)
      writeLine(
        `${deadLetters} records of the source cannot be decoded and are not copied; \`instar doctor\` lists them`,
      )
    if (report.sourceGrew)
      writeLine(
        follows
          ? 'the source still grows: a process writes to it. Do not switch; stop it and run the command again'
          : 'the source has grown during the copy; run the command again to copy the rest',
      )
    const wallMs = Math.round(performance.now() - startedAt)
    const { topics, copied, skipped, equal, first, sourceGrew } = report
    const rounds = 'rounds' in report ? { rounds: report.rounds } : {}
    print(
      { topics, copied, skipped, equal, first, ...(damaged ? { damaged } : {}), sourceGrew, ...rounds, wallMs },
      () => copyReportText(report, wallMs),
    )
    return equal && !(follows && sourceGrew)
  } finally {
    await source.close()
  }
}
