/** `instar archive` on its own broker: an archive is restored into Kafka, the log on Kafka is archived and restored, and read after a cut. */
import { schemaTexts } from '@instar/events'
import {
  Archive,
  isCutAway,
  openEmbeddedLog,
  openFolderStore,
  withArchive,
  type EventLog,
  type LogRecord,
  type ReadOptions,
} from '@instar/log'
import { openKafka, readSettings } from '@instar/process'
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { archiveTo, cutBelow } from '../kit/event-log/cut-log.ts'
import { all } from '../kit/event-log/harness.ts'
import { longHistory, records } from '../kit/projected-history.ts'
import { startKafka, type KafkaCluster } from '../kit/stack/kafka.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let kafka: KafkaCluster
before(async () => {
  folder = await temporaryFolder()
  kafka = await startKafka({ folder: join(folder.path, 'kafka') })
})
after(async () => {
  await kafka.stop()
  await folder.remove()
})

type Report = { copied: number; equal: boolean; topics: { turns: { records: number } }; added: { records: number } }

test('an archive of an embedded log is restored into Kafka, and an archive of that has the same turns', async () => {
  const [data, back, one, two] = ['data', 'back', 'one', 'two'].map((name) => join(folder.path, name)) as [
    string,
    string,
    string,
    string,
  ]
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(records([...longHistory(500)]))
  await log.close()
  const onKafka = { INSTAR_LOG: `kafka://${kafka.brokers.join(',')}`, INSTAR_REGISTRY: addresses().registry }
  const done = async (args: string[], env: Record<string, string>): Promise<Report> => {
    const { code, json, err } = await instar(['archive', ...args, '--json'], env)
    equal(code, 0, err)
    return json as Report
  }
  equal((await instar(['setup', '--json'], onKafka)).code, 0)
  const first = await done(['--to', one], { INSTAR_DATA: data })
  const there = await done(['restore', '--from', one], { ...onKafka, INSTAR_DATA: data })
  deepEqual([there.copied, there.equal], [first.added.records, true])

  await done(['--to', two], { ...onKafka, INSTAR_DATA: data })
  equal((await done(['--to', two], { ...onKafka, INSTAR_DATA: data })).added.records, 0)
  await done(['verify', '--from', two], {})
  const { log: against } = (await done(['verify', '--from', two, '--log'], onKafka)) as Report & { log: unknown }
  deepEqual(against, { records: first.added.records + 1, damaged: 0, behind: 0, checkpoints: [], first: null })
  await done(['restore', '--from', two], { INSTAR_DATA: back })
  const compared = await instar(['log', 'copy', '--from', `embedded:${data}`, '--to', `embedded:${back}`, '--json'], {})
  const { skipped, copied } = compared.json as { skipped: number; copied: number }
  deepEqual([compared.code, skipped, copied], [0, first.added.records, 0], compared.err)
})

test('what was cut from a log on Kafka is read from its archive, by commands, positions, times and subscriptions', async () => {
  const onKafka = { INSTAR_LOG: `kafka://${kafka.brokers.join(',')}`, INSTAR_REGISTRY: addresses().registry }
  const place = join(folder.path, 'cut')
  const log = await openKafka(readSettings(onKafka, '/'), { name: 'test' })
  try {
    const line = ({ topic, partition, offset, key, schema, timestamp, payload }: LogRecord): string =>
      [topic, partition, offset, key, schema, timestamp, Buffer.from(payload).toString('base64')].join(' ')
    const linesOf = async (one: EventLog, options: ReadOptions = {}): Promise<string[]> =>
      (await all(one.read('turns', options))).map(line).toSorted()
    const exported = async (env: Record<string, string>): Promise<string> => {
      const file = join(folder.path, `turns-${Object.keys(env).length}.jsonl`)
      const { code, err } = await instar(['export', file], env)
      equal(code, 0, err)
      return readFileSync(file, 'utf8').split('\n').toSorted().join('\n')
    }
    const turns = await all(log.read('turns'))
    const some = turns[turns.length >> 2]!
    const cases: ReadOptions[] = [
      {},
      { partition: some.partition },
      { key: some.key },
      { from: { time: some.timestamp } },
      { key: some.key, from: { time: some.timestamp } },
      { to: { time: some.timestamp } },
    ]
    const before = await Promise.all(cases.map((options) => linesOf(log, options)))
    const turnsBefore = await exported(onKafka)

    const ends = (await log.ends(['turns'])).turns!
    const below = (share: number): Record<number, number> =>
      Object.fromEntries(Object.entries(ends).map(([partition, end]) => [partition, Math.floor(share * end)]))
    const manifest = await archiveTo(log, place, { schemas: log.schemas(), objectBytes: 1 << 14 })
    const starts = await cutBelow(log, { turns: below(0.6) }, { archive: place, manifest })
    ok(
      Object.values(starts.turns!).every((start) => start > 5),
      JSON.stringify(starts),
    )
    await rejects(linesOf(log), (error: Error) => isCutAway(error) && error.message.endsWith(`archive: ${place}`))

    const store = openFolderStore(place, false)
    const source = {
      address: place,
      open: () => Archive.open(store, { keptBytes: 1 << 20 }),
      close: () => store.close(),
    }
    const archived = withArchive(log, source)
    for (const [i, options] of cases.entries())
      deepEqual(await linesOf(archived, options), before[i], JSON.stringify(options))
    for (const record of turns) equal(line((await archived.at(record))!), line(record))
    equal(await exported({ ...onKafka, INSTAR_ARCHIVE: place }), turnsBefore)
    const copy = [
      'log',
      'copy',
      '--from',
      onKafka.INSTAR_LOG,
      '--to',
      `embedded:${join(folder.path, 'copy')}`,
      '--json',
    ]
    const copied = await instar(copy, { ...onKafka, INSTAR_ARCHIVE: place })
    equal((copied.json as Report).topics.turns.records, turns.length, copied.err)

    // The log is cut further while it is followed from its start, as a service without a snapshot does.
    const seen: string[] = []
    let further: Promise<unknown> | undefined
    const subscription = await archived.subscribe({
      topics: ['turns', 'upgrades'],
      group: 'archived',
      from: 'start',
      maxBatch: 20,
      async handle(records) {
        await (further ??= cutBelow(log, { turns: below(0.8) }, { archive: place, manifest }))
        seen.push(...records.filter(({ topic }) => topic === 'turns').map(line))
      },
    })
    await subscription.caughtUp()
    await subscription.stop()
    deepEqual(seen.toSorted(), before[0])
    const byPartition = Map.groupBy(seen, (text) => text.split(' ')[1])
    for (const texts of byPartition.values()) {
      const offsets = texts.map((text) => Number(text.split(' ')[2]))
      deepEqual(
        offsets,
        offsets.toSorted((a, b) => a - b),
      )
    }
    const taken: string[] = []
    const taking = await archived.subscribe({
      topics: ['turns', 'upgrades'],
      group: 'archived',
      from: 'start',
      byPartition: 'turns',
      handle: (records) => void taken.push(...records.filter(({ topic }) => topic === 'turns').map(line)),
    })
    await taking.take(some.partition, () => 0)
    await taking.stop()
    deepEqual(taken.toSorted(), before[1])
  } finally {
    await log.close()
  }
})
