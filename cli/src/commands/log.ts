import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { copyLog, type CopyReport } from '@instar/log'
import { PARTITIONS_FORM, partitionsOf } from '@instar/process'
import { command, UsageError } from '../command.ts'
import { copyProgress, reportText } from '../copying.ts'
import { openDestination, openSource, placeOf, samePlace } from '../places.ts'
import { setAside } from '../setting-aside.ts'

export default command('log', {
  usage:
    'copy --from LOG --to LOG [--partitions turns=16,…] [--registry URL] | set-aside --at "TOPIC PARTITION@OFFSET" --why TEXT',
  help: `
copy: copies a log into another one: the same bytes, ids and times, the order of each key, records that nothing counts
too. LOG is embedded:FOLDER (a folder as INSTAR_DATA names one; embedded alone: that of INSTAR_DATA) or
kafka://host:port,…, which \`instar setup\` has prepared.

What the destination holds is compared record by record. It has to be the beginning of the source, and the copy goes
on behind it: a copy that was stopped or killed is finished by running it again, and a finished one is brought up to
a source that has grown. Anything else is refused, with the first record that differs. Both logs are read back at
the end and compared by digests of every key. The source may be written meanwhile: it is copied up to where it ended
when the copy began. Nothing else may write to the destination.

  --from LOG        the source, which is only read
  --to LOG          the destination; an embedded one is made
  --partitions P    how many partitions the destination has, where they differ from the source's
  --registry URL    schema registry of a log on Kafka (INSTAR_REGISTRY)

set-aside: copies a record of INSTAR_LOG on Kafka at which every reader stops with unknown_schema to its topic's dead letters, and
readers pass over it from then on. For what another program wrote: first check that INSTAR_REGISTRY is the right one.

  --at PLACE        as the error names it: "turns 3@17"
  --why TEXT        kept with the dead letter

--json of a copy: {topics: {turns: {records, bytes, digest}, …}, copied, skipped, equal, first, sourceGrew, wallMs}
Exit code 0 iff equal.`,
  options: {
    from: { type: 'string' },
    to: { type: 'string' },
    partitions: { type: 'string' },
    registry: { type: 'string' },
    at: { type: 'string' },
    why: { type: 'string' },
  },
  overrides: ['data'],
  positionals: [1, 1],
  async run({ config, cwd, positionals, values, answer, err, terminal, stop }) {
    if (positionals[0] === 'set-aside') {
      const position = await setAside(config, values, (line) => err(`${line}\n`))
      answer(
        position,
        () => `${position.topic} ${position.partition}@${position.offset} is set aside: readers pass over it\n`,
      )
      return true
    }
    if (positionals[0] !== 'copy') throw new UsageError(`there is no \`log ${positionals[0]}\``)
    if (values.from === undefined || values.to === undefined) throw new UsageError('--from and --to are needed')
    const asked = values.partitions === undefined ? {} : partitionsOf(values.partitions)
    if (asked === null) throw new UsageError(`--partitions ${values.partitions} is not ${PARTITIONS_FORM}`)
    const registry = values.registry ?? config.registry
    const [from, to] = [values.from, values.to].map((text) => placeOf(text, config, cwd, registry)) as [
      ReturnType<typeof placeOf>,
      ReturnType<typeof placeOf>,
    ]
    if (samePlace(from, to))
      throw new InstarError('bad_request', 'The source and the destination are the same log.', { field: 'to' })

    const say = (line: string): void => err(`${line}\n`)
    const begin = performance.now()
    const source = await openSource(from, say)
    try {
      const stored = Object.fromEntries(TOPICS.map((topic) => [topic, source.partitions(topic)])) as Record<
        Topic,
        number
      >
      const destination = await openDestination(
        to,
        { ...stored, ...asked },
        { ...schemaTexts(), ...('schemas' in source ? source.schemas() : {}) },
        say,
      )
      const progress = copyProgress(err, terminal)
      let report: CopyReport
      try {
        report = await copyLog({ from: source, to: destination, onProgress: progress.show, signal: stop })
      } finally {
        progress.end()
        await destination.close()
      }
      const unreadable =
        'deadLetters' in source
          ? (await Promise.all(TOPICS.map((topic) => source.deadLetters(topic)))).flat().length
          : 0
      if (unreadable > 0)
        say(`${unreadable} records of the source that nobody can read stay behind; \`instar doctor\` lists them`)
      if (report.sourceGrew) say('the source has grown meanwhile: run it again for what is new')
      const wallMs = Math.round(performance.now() - begin)
      const { topics, copied, skipped, equal, first, sourceGrew } = report
      answer({ topics, copied, skipped, equal, first, sourceGrew, wallMs }, () => reportText(report, wallMs))
      return equal
    } finally {
      await source.close()
    }
  },
})
