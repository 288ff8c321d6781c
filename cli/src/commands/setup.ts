import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { announceUpgrade } from '@instar/log'
import { brokersOf, setupKafka, setupSchemas, type SchemasReport, type SetupReport } from '@instar/log/kafka/index'
import { kafkaSecurity, logTarget, openKafka, registryOf, type LogSettings } from '@instar/process'
import { setupDatabase } from '@instar/projections'
import { command } from '../command.ts'
import { table } from '../table.ts'

const announce = async (config: LogSettings, signal: AbortSignal): Promise<Record<string, number> | null> => {
  const log = await openKafka(config, { name: 'setup' })
  try {
    return await announceUpgrade(log, 'setup', Date.now(), signal)
  } finally {
    await log.close()
  }
}

export default command('setup', {
  usage: '[--upgraded]',
  help: `
Prepares what the services need and do not make themselves: the topics of INSTAR_LOG with their settings, our schemas
in INSTAR_REGISTRY with BACKWARD_TRANSITIVE compatibility, the tables and the reader's role in DATABASE_URL. Waits a
minute for each to answer. Safe to run again, and by several at once: what is there stays as it is.

The numbers that the registry gives are written to the log, with the schemas. A registry that was lost (empty) is
filled from there, under the same numbers; one that means something else by a number of the log is refused.

INSTAR_REPLICATION says how many copies Kafka keeps of a record (default 1; 3 on three brokers), INSTAR_PARTITIONS how
many partitions topics have where not as many as usual (turns=16): for ever, and every service must be told the same.

  --upgraded   every process that reads this log runs this build or a newer one now: from here on records are written
               in its versions. Until then they are written as every build reads them, so that processes of two builds
               can work side by side. On a log that has just been made it goes without saying.

--json: {topics: {created: […], differing: [{topic, setting, is, should}]}, schemas, restored: […],
moved: [{schema, was, is}], database, upgraded: {TYPE: version}}
Exit code 1 where a topic that was there has other settings than ours.`,
  options: { upgraded: { type: 'boolean', default: false } },
  async run({ config, values, answer, err, stop }) {
    if (!logTarget(config).needsSetup)
      throw new InstarError(
        'bad_request',
        'INSTAR_LOG is the embedded log, which needs no setup: `npx instar up` is enough.',
        { field: 'INSTAR_LOG' },
      )
    const schemas = schemaTexts()
    const registry = registryOf(config)
    err(
      `topics on ${config.log}, schemas in ${registry.url}${config.database === null ? '' : ', tables in DATABASE_URL'} …\n`,
    )
    const security = kafkaSecurity(config)
    const kafka = { brokers: brokersOf(config.log), ...(security ? { security } : {}) }
    const prepareLog = async (): Promise<[SetupReport, SchemasReport]> => {
      const made = await setupKafka({ ...kafka, replication: config.replication, partitions: config.partitions })
      return [made, await setupSchemas({ ...kafka, registry, schemas, patience: 60_000 })]
    }
    const [[topics, { restored, moved }]] = await Promise.all([
      prepareLog(),
      config.database === null ? null : setupDatabase(config.database, config.databaseReaderPassword),
    ])
    const { created, differing } = topics
    const upgraded = values.upgraded || created.includes('turns') ? await announce(config, stop) : null
    answer(
      {
        topics,
        schemas: Object.keys(schemas).length,
        restored,
        moved,
        database: config.database !== null,
        upgraded: upgraded ?? {},
      },
      () =>
        [
          `${created.length === 0 ? 'all topics were there' : `made ${created.join(', ')}`}; ${Object.keys(schemas).length} schemas registered${config.database === null ? '' : '; the database is ready'}\n`,
          upgraded
            ? `announced: all readers know ${Object.entries(upgraded)
                .map(([name, version]) => `${name} v${version}`)
                .join(', ')}\n`
            : values.upgraded
              ? 'this build was announced before\n'
              : '',
          restored.length === 0
            ? ''
            : `the registry had lost ${restored.length} schemas of the log: restored under the same numbers\n`,
          moved.length === 0
            ? ''
            : `under other numbers than before, so that only Instar can read their old records: ${moved.map(({ schema, was, is }) => `${schema} (${was}, now ${is})`).join(', ')}\n`,
          differing.length === 0
            ? ''
            : `\nother settings than ours, which setup leaves alone:\n${table(
                [
                  { name: 'topic', of: (row) => row.topic },
                  { name: 'setting', of: (row) => row.setting },
                  { name: 'is', of: (row) => row.is },
                  { name: 'should be', of: (row) => row.should },
                ],
                differing,
              )}`,
        ].join(''),
    )
    return differing.length === 0
  },
})
