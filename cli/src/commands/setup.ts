import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { announceUpgrade } from '@instar/log'
import { brokersOf, setupKafka, setupSchemas, type SchemasReport, type SetupReport } from '@instar/log/kafka/index'
import { kafkaSecurity, logTarget, openKafka, registryOf, type LogSettings } from '@instar/process'
import { setupDatabase } from '@instar/projections'
import { command } from '../command.ts'
import { learningSettings } from '../learning-settings.ts'
import { table } from '../table.ts'

const REGISTRY_TIMEOUT_MS = 60_000

/** Record type → the version that is written from now on. Null: this build was announced before. */
type Announced = Record<string, number> | null

const announce = async (config: LogSettings, signal: AbortSignal): Promise<Announced> => {
  const log = await openKafka(config, { name: 'setup' })
  try {
    return await announceUpgrade(log, 'setup', Date.now(), signal)
  } finally {
    await log.close()
  }
}

type SetupResult = {
  topics: SetupReport
  schemas: { count: number; report: SchemasReport }
  database: boolean
  announced: Announced
  /** The option --upgraded was given. */
  upgraded: boolean
}

const announcedText = ({ announced, upgraded }: SetupResult): string => {
  if (!announced) return upgraded ? 'this build was announced before\n' : ''
  const versions = Object.entries(announced).map(([name, version]) => `${name} v${version}`)
  return `announced that all readers know ${versions.join(', ')}\n`
}

const resultText = (result: SetupResult): string => {
  const { created, differing } = result.topics
  const { restored, moved } = result.schemas.report
  const topics = created.length === 0 ? 'no topic was missing' : `created ${created.join(', ')}`
  const database = result.database ? '; the database is ready' : ''
  const movedSchemas = moved.map(({ schema, was, is }) => `${schema} (${was}, now ${is})`)
  return [
    `${topics}; ${result.schemas.count} schemas registered${database}\n`,
    announcedText(result),
    restored.length === 0
      ? ''
      : `the registry had lost ${restored.length} schemas of the log: restored under the same ids\n`,
    moved.length === 0
      ? ''
      : `registered under other ids than before, so that only Instar can read the old records: ${movedSchemas.join(', ')}\n`,
    differing.length === 0
      ? ''
      : `\nsettings that differ; setup does not change existing topics:\n${table(
          [
            { name: 'topic', of: (row) => row.topic },
            { name: 'setting', of: (row) => row.setting },
            { name: 'is', of: (row) => row.is },
            { name: 'should be', of: (row) => row.should },
          ],
          differing,
        )}`,
  ].join('')
}

export default command('setup', {
  usage: '[--upgraded]',
  help: `
Prepares what the services do not create themselves: the topics of INSTAR_LOG with their settings, the schemas in
INSTAR_REGISTRY with BACKWARD_TRANSITIVE compatibility, the tables and the reader's role in DATABASE_URL. Waits up to a
minute for each to answer. Changes nothing that exists, so it is safe to run again and several times at once.

The schema ids of the registry are written to the log, with the schemas. An empty registry is filled from the log, under
the same ids. A registry that has another schema under an id of the log is refused.

INSTAR_REPLICATION is the number of replicas of each partition (default 1; use 3 with three brokers). A new log has 64
partitions of turns with three or more replicas, else 8; an existing one keeps its number. INSTAR_PARTITIONS sets other
partition counts (turns=16), which every service then needs too. They cannot be changed on a log: \`instar log copy
--follow\` goes on with another log.

  --upgraded   announce that every process that reads this log runs this build or a newer one: from now on records are
               written in its versions. Before, they are written in versions that every build reads, so that processes
               of two builds can run side by side. For a new log this is announced without the option.

--json: {topics: {created: […], differing: [{topic, setting, is, should}]}, schemas, restored: […],
moved: [{schema, was, is}], database, upgraded: {TYPE: version}}. Exit code 1 if an existing topic has other settings`,
  options: { upgraded: { type: 'boolean', default: false } },
  async run({ config, values, print, err, stop }) {
    if (!logTarget(config).needsSetup)
      throw new InstarError(
        'bad_request',
        'INSTAR_LOG is the embedded log, which needs no setup. Start the pipeline with `npx instar up`.',
        { field: 'INSTAR_LOG' },
      )
    // Compose starts no service before this job has ended well. The model is not needed, and may be elsewhere.
    learningSettings(config, null)
    const schemas = schemaTexts()
    const registry = registryOf(config)
    const database = config.database !== null
    err(`topics on ${config.log}, schemas in ${registry.url}${database ? ', tables in DATABASE_URL' : ''} …\n`)
    const security = kafkaSecurity(config)
    const kafka = { brokers: brokersOf(config.log), ...(security ? { security } : {}) }
    const setupLog = async (): Promise<[SetupReport, SchemasReport]> => {
      const topics = await setupKafka({ ...kafka, replication: config.replication, partitions: config.partitions })
      return [topics, await setupSchemas({ ...kafka, registry, schemas, retryMs: REGISTRY_TIMEOUT_MS })]
    }
    const [[topics, report]] = await Promise.all([
      setupLog(),
      config.database === null ? null : setupDatabase(config.database, config.databaseReaderPassword),
    ])
    const isNew = topics.created.includes('turns')
    const announced = values.upgraded || isNew ? await announce(config, stop) : null
    const count = Object.keys(schemas).length
    print(
      {
        topics,
        schemas: count,
        restored: report.restored,
        moved: report.moved,
        database,
        upgraded: announced ?? {},
      },
      () => resultText({ topics, schemas: { count, report }, database, announced, upgraded: values.upgraded }),
    )
    return topics.differing.length === 0
  },
})
