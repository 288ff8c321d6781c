import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { Archive, copyLog, writeArchive, type ArchiveCheck, type ArchiveReport, type LogComparison } from '@instar/log'
import { PARTITIONS_FORM, partitionsOf } from '@instar/process'
import { openArchiveStore } from '../archive-address.ts'
import { comparedWithLog, comparisonText } from '../archive-against-log.ts'
import { command, UsageError, type Invocation } from '../command.ts'
import { copyReportText, createCopyProgress, durationText } from '../copy-progress.ts'
import { openDestination, openSource, parseLogAddress } from '../log-addresses.ts'
import { table } from '../table.ts'
import { warnOfDamaged } from '../warn-of-damaged.ts'

const OPTIONS = {
  to: { type: 'string' },
  from: { type: 'string' },
  partitions: { type: 'string' },
  registry: { type: 'string' },
  manifest: { type: 'string' },
  endpoint: { type: 'string' },
  log: { type: 'boolean' },
  encrypt: { type: 'string' },
  'keep-days': { type: 'string' },
  'dry-run': { type: 'boolean' },
  'delete-unreadable': { type: 'boolean' },
} as const

type ArchiveInvocation = Invocation<typeof OPTIONS>

export default command('archive', {
  usage:
    '--to PLACE | restore --from PLACE [--to LOG] [--manifest SHA256] | verify --from PLACE [--log] [--manifest SHA256] | cut --from PLACE [--keep-days N] [--dry-run] [--delete-unreadable] [--manifest SHA256]',
  help: `
Copies the log of INSTAR_LOG into a place of immutable objects with a manifest of their digests. PLACE is a folder, or
s3://bucket/prefix in a store with the S3 API, with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN and the region of AWS_REGION. A run
adds what is new since the last one; one that was stopped, also by kill -9, is completed by running it again. The log may
be in use: it is archived up to its end at the start. Nothing is removed from it. The archive holds every prompt and every
answer: keep it as private as the log.

  --to PLACE          the archive; created
  --registry URL      schema registry of a log on Kafka (default INSTAR_REGISTRY)
  --endpoint URL      the S3 store, also for restore and verify (default AWS_ENDPOINT_URL, then Amazon's)
  --encrypt HOW       server-side encryption: AES256, aws:kms or aws:kms:KEY (default: the bucket's)

restore: copies an archive into an empty log, with the same bytes, ids, times and order, and schemas; into an embedded
log also with the same offsets, if it came from one. Each object is checked by its digest before a record of it is written.
A restore that was stopped, or met a damaged object, continues when it is run again. At the end archive and log are
read and compared by digests of each key.

  --from PLACE        the archive; it is not changed
  --to LOG            the log: embedded:FOLDER or kafka://host:port,… (default: that of INSTAR_LOG and INSTAR_DATA)
  --partitions P      partition counts of the log (default: those of the archive)
  --manifest SHA256   refuse any other manifest; archive and verify print it

verify: reads every object and lists those that are missing or damaged.

  --log               also compare every record of the archive with that of the log of INSTAR_LOG at its position, and say
                      of the newest checkpoint of each state whether all of the log before it is archived

cut: deletes from the log the records of turns and scores that the archive has, that the checkpoints of
scorer, trainer, publisher, gateway and audit (\`instar checkpoint\`) have folded, that are old, and that no judge or batch may still read.
Every record of the log is compared with the archive's first, and a record of the log (LogCut) names the archive. Builds without
this command cannot read a log that has one. A cut that was stopped, also by kill -9, is completed by running it again. The
embedded log has one writer: stop \`instar up\` first. On Kafka the services may run, all of them this build or a later one
(\`instar setup --upgraded\`). The file of the embedded log does not shrink: new records take the room.

  --keep-days N       what was written in the last N days stays (default 30, at least 7)
  --dry-run           only say what would be deleted; \`instar up\` may run
  --delete-unreadable also delete records that cannot be read and that the archive does not have; without it such a record
                      ends the cut (not_archived) before anything is deleted

A record of the log that does not match its checksum is passed over, as by the services, and listed by archive, verify
and restore with its position. It is a warning: the exit code stays 0.

--json of archive: {topics: {turns: {records, objects, bytes, ends}, …}, damaged: {records, first: [{topic, partition,
offset}]}, added: {records, objects, bytes, damaged}, manifest, wallMs}; of restore: that of \`instar log copy\` and
damaged, complete, manifest; of verify: {topics, damaged, manifest, complete, problems: [{object, what}], log, wallMs}; log is null
without --log, else {records, damaged, behind, checkpoints: [{name, record, at, archived}], first}; of cut: {dryRun, keepDays,
since, topics: {turns: {records, bytes, starts}, scores}, unarchived: {records, first: [{topic, partition, offset}]}, record,
completed, needed, checkpoints: [{name, record, at}], manifest, compared, file, wallMs}, record null where nothing new was cut, file the bytes of log.db. Exit
code 0 if the log is archived, the restored log is equal to the archive, or every object is as the manifest says and every record
as the log has it`,
  options: OPTIONS,
  overrides: ['data', 'archive'],
  positionals: [0, 1],
  async run(invocation) {
    const [subcommand] = invocation.positionals
    if (subcommand === undefined) return archive(invocation)
    if (subcommand === 'restore') return restore(invocation)
    if (subcommand === 'verify') return verify(invocation)
    if (subcommand === 'cut') return cutArchived(invocation)
    throw new UsageError(`unknown subcommand: archive ${subcommand}`)
  },
})

const elapsed = (): (() => number) => {
  const startedAt = performance.now()
  return () => Math.round(performance.now() - startedAt)
}

/** Options of `cut` alone. */
const OF_CUT = ['keep-days', 'dry-run', 'delete-unreadable'] as const

/** Throws `UsageError` for an option that the subcommand does not take. */
const refuse = (values: ArchiveInvocation['values'], names: readonly (keyof typeof OPTIONS)[], of: string): void => {
  for (const name of names) if (values[name] !== undefined) throw new UsageError(`--${name} is no option of ${of}`)
}

const archive = async (invocation: ArchiveInvocation): Promise<boolean> => {
  const { config, cwd, values, print, err, terminal, stop } = invocation
  refuse(values, ['from', 'partitions', 'manifest', 'log', ...OF_CUT], 'archive')
  if (values.to === undefined) throw new UsageError('--to PLACE is required')
  const wallMs = elapsed()
  const writeLine = (line: string): void => err(`${line}\n`)
  const address = parseLogAddress(config.log, config, cwd, values.registry ?? config.registry)
  const source = await openSource(address, config.archive, writeLine)
  try {
    const store = openArchiveStore(values.to, invocation, true)
    const progress = createCopyProgress(invocation.raw.err, terminal)
    let report: ArchiveReport
    try {
      report = await writeArchive({
        from: source,
        schemas: () => source.schemas(),
        to: store,
        onProgress: progress.show,
        signal: stop,
      })
    } finally {
      progress.end()
      await store.close()
    }
    warnOfDamaged(report.damaged, writeLine, 'is not in the archive', 'are not in the archive')
    let deadLetters = 0
    if ('deadLetters' in source)
      for (const topic of TOPICS) for await (const _ of source.deadLetters(topic)) deadLetters++
    if (deadLetters > 0)
      writeLine(
        `${deadLetters} records of the log cannot be decoded and are not archived; \`instar doctor\` lists them`,
      )
    const ms = wallMs()
    print({ ...report, wallMs: ms }, () => {
      const { records, objects } = report.added
      return `${topicsText(report.topics)}${records} records added in ${objects} objects, ${durationText(ms)}; manifest ${report.manifest}\n`
    })
    return true
  } finally {
    await source.close()
  }
}

const topicsText = (topics: ArchiveReport['topics']): string =>
  table(
    [
      { name: 'topic', of: ([topic]) => topic },
      { name: 'records', of: ([, { records }]) => records },
      { name: 'objects', of: ([, { objects }]) => objects },
      { name: 'bytes', of: ([, { bytes }]) => bytes },
    ],
    Object.entries(topics) as [Topic, ArchiveReport['topics'][Topic]][],
  )

/** Opens the archive of `--from` while `use` runs. Throws `UsageError`. */
const withArchive = async <T>(
  invocation: ArchiveInvocation,
  use: (archive: Archive, address: string) => Promise<T>,
): Promise<T> => {
  const { values, stop } = invocation
  if (values.from === undefined) throw new UsageError('--from PLACE is required')
  if (values.manifest !== undefined && !/^[0-9a-f]{64}$/.test(values.manifest))
    throw new UsageError(`--manifest ${values.manifest} is not a SHA-256 of 64 hexadecimal digits`)
  const store = openArchiveStore(values.from, invocation, false)
  try {
    const archive = await Archive.open(store, { digest: values.manifest, signal: stop })
    return await use(archive, store.address)
  } finally {
    await store.close()
  }
}

const INCOMPLETE =
  'the last run of `instar archive` was stopped before its end: the archive is a beginning of the log whose topics end at different moments'

const restore = (invocation: ArchiveInvocation): Promise<boolean> =>
  withArchive(invocation, async (archive) => {
    const { config, cwd, values, print, err, terminal, stop } = invocation
    refuse(values, ['log', ...OF_CUT], 'archive restore')
    const partitions = values.partitions === undefined ? {} : partitionsOf(values.partitions)
    if (partitions === null) throw new UsageError(`--partitions ${values.partitions} is not ${PARTITIONS_FORM}`)
    const wallMs = elapsed()
    const writeLine = (line: string): void => err(`${line}\n`)
    checkSchemas(archive)
    const address = parseLogAddress(values.to ?? config.log, config, cwd, values.registry ?? config.registry)
    const destination = await openDestination(
      address,
      { ...Object.fromEntries(TOPICS.map((topic) => [topic, archive.partitions(topic)])), ...partitions },
      { ...archive.schemas(), ...schemaTexts() },
      writeLine,
    )
    const progress = createCopyProgress(invocation.raw.err, terminal)
    try {
      const report = await copyLog({ from: archive, to: destination, onProgress: progress.show, signal: stop })
      if (!archive.complete) writeLine(INCOMPLETE)
      const lower = 'missing here; offsets after it are lower than on the archived log'
      warnOfDamaged(archive.damaged, writeLine, `is ${lower}`, `are ${lower.replace('after it', 'after them')}`)
      const ms = wallMs()
      const { topics, copied, skipped, equal, first } = report
      const { damaged, complete, digest: manifest } = archive
      print({ topics, copied, skipped, equal, first, damaged, complete, manifest, wallMs: ms }, () =>
        copyReportText(report, ms),
      )
      return equal
    } finally {
      progress.end()
      await destination.close()
    }
  })

const compact = (json: string): string => JSON.stringify(JSON.parse(json))

/** Throws `schema_changed` if the archive gives a record version that this build knows another schema. */
const checkSchemas = (archive: Archive): void => {
  const ours = schemaTexts()
  for (const [name, text] of Object.entries(archive.schemas()))
    if (Object.hasOwn(ours, name) && compact(ours[name]!) !== compact(text))
      throw new InstarError('schema_changed', `The archive has another schema of ${name} than this build.`, { name })
}

const cutArchived = (invocation: ArchiveInvocation): Promise<boolean> => {
  refuse(invocation.values, ['to', 'partitions', 'registry', 'encrypt', 'log'], 'archive cut')
  return withArchive(invocation, async (archive, address) => {
    const { cut } = await import('../archive-cut.ts')
    await cut(invocation, archive, address)
    return true
  })
}

const verify = async (invocation: ArchiveInvocation): Promise<boolean> => {
  const withLog = invocation.values.log === true
  refuse(
    invocation.values,
    ['to', 'partitions', 'encrypt', ...OF_CUT, ...(withLog ? [] : ['registry' as const])],
    'archive verify',
  )
  return withArchive(invocation, async (archive) => {
    const { print, err, raw, terminal, stop } = invocation
    const wallMs = elapsed()
    const progress = createCopyProgress(raw.err, terminal)
    let check: ArchiveCheck
    let log: LogComparison | null = null
    try {
      check = await archive.check({ onProgress: progress.show, signal: stop })
      if (withLog && check.problems.length === 0)
        log = await comparedWithLog(invocation, archive, invocation.values.registry, progress.show)
    } finally {
      progress.end()
    }
    if (!check.complete) err(`${INCOMPLETE}\n`)
    warnOfDamaged(check.damaged, (line) => err(`${line}\n`), 'is not in the archive', 'are not in the archive')
    const ms = wallMs()
    print({ ...check, log, wallMs: ms }, () => {
      const problems = check.problems.map(({ object, what }) => `${object}: ${what}\n`).join('')
      const verdict =
        check.problems.length === 0 ? 'every object is as the manifest says' : `${check.problems.length} DAMAGED`
      return `${topicsText(check.topics)}${problems}${log ? comparisonText(log) : ''}${verdict}, ${durationText(ms)}; manifest ${check.manifest}\n`
    })
    return check.problems.length === 0 && !log?.first
  })
}
