import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { brokersOf, registerSchemas, setupKafka } from '@instar/log/kafka/index'
import { isKafka, registryOf } from '@instar/process'
import { setupDatabase } from '@instar/projections'
import { command } from '../command.ts'
import { table } from '../table.ts'

export default command('setup', {
  usage: '',
  help: `
Prepares what the services need and do not make themselves: the topics of INSTAR_LOG with their settings, our schemas
in INSTAR_REGISTRY with BACKWARD_TRANSITIVE compatibility, the tables and the reader's role in DATABASE_URL. Waits a
minute for each to answer. Safe to run again, and by several at once: what is there stays as it is.

INSTAR_REPLICATION says how many copies Kafka keeps of a record (default 1; 3 on three brokers), INSTAR_PARTITIONS how
many partitions topics have where not as many as usual (turns=16): for ever, and every service must be told the same.

--json: {topics: {created: […], differing: [{topic, setting, is, should}]}, schemas, database}
Exit code 1 where a topic that was there has other settings than ours.`,
  options: {},
  async run({ config, answer, err }) {
    if (!isKafka(config)) throw new InstarError('bad_request', 'INSTAR_LOG is the embedded log, which needs no setup: `npm start` is enough.', { field: 'INSTAR_LOG' })
    const schemas = schemaTexts()
    const registry = registryOf(config)
    err(`topics on ${config.log}, schemas in ${registry}${config.database === null ? '' : ', tables in DATABASE_URL'} …\n`)
    const [topics] = await Promise.all([
      setupKafka({ brokers: brokersOf(config.log), replication: config.replication, partitions: config.partitions }),
      registerSchemas({ registry, schemas, patience: 60_000 }),
      config.database === null ? null : setupDatabase(config.database),
    ])
    const { created, differing } = topics
    answer({ topics, schemas: Object.keys(schemas).length, database: config.database !== null }, () => [
      `${created.length === 0 ? 'all topics were there' : `made ${created.join(', ')}`}; ${Object.keys(schemas).length} schemas registered${config.database === null ? '' : '; the database is ready'}\n`,
      differing.length === 0 ? '' : `\nother settings than ours, which setup leaves alone:\n${table([{ name: 'topic', of: (row) => row.topic }, { name: 'setting', of: (row) => row.setting }, { name: 'is', of: (row) => row.is }, { name: 'should be', of: (row) => row.should }], differing)}`,
    ].join(''))
    return differing.length === 0
  },
})
