/** `instar archive cut` on its own broker: each partition begins at its own record, and what reads on goes on from there. */
import { decodeRecord, encodeEvent, schemaTexts, type ScoresEvent } from '@instar/events'
import {
  Archive,
  cutLog,
  cutsOn,
  isCutAway,
  openEmbeddedLog,
  openFolderStore,
  openSnapshots,
  usableCheckpoint,
  type Offsets,
} from '@instar/log'
import { openKafkaLog, type KafkaLog } from '@instar/log/kafka/index'
import { readSettings } from '@instar/process'
import { publisherFold } from '@instar/publisher'
import { createScorer, scorerConfig, scorerFold, type Judge } from '@instar/scorer'
import { auditFold, neededTurns, trainerFold } from '@instar/trainer'
import { Kafka, logLevel, Partitioners } from 'kafkajs'
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { instar } from '../kit/cli.ts'
import { all } from '../kit/event-log/harness.ts'
import { startRig, USER } from '../kit/gateway.ts'
import { longHistory } from '../kit/long-history.ts'
import { captured } from '../kit/scored-history.ts'
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

/** The partition of a record that another program wrote. */
const UNREADABLE = 3
const writeUnreadable = async (brokers: string[], topic: string, partition: number): Promise<void> => {
  const producer = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer({
    createPartitioner: Partitioners.DefaultPartitioner,
  })
  await producer.connect()
  await producer.send({
    topic,
    messages: [{ key: 'stranger', value: 'no record of the log', partition, timestamp: '1' }],
  })
  await producer.disconnect()
}

type LoggedCut = Awaited<ReturnType<typeof cutsOn>>[number]

/** A cut that ends when it has deleted of the first of the two topics. */
const stoppedBetweenTopics = async (log: KafkaLog, place: string, checkpoints: string): Promise<void> => {
  const observer = { onProgress: () => undefined }
  const { signal } = new AbortController()
  const wanted = { policy: 'policy', folder: checkpoints, signal }
  const folds = [scorerFold, trainerFold, publisherFold, auditFold]
  const stopped = new Proxy(log, {
    get(target, name) {
      if (name === 'cut') return cutTurns
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const cutTurns = async ({ turns }: Offsets): Promise<void> => {
    await log.cut({ turns: turns! })
    throw new Error('stopped')
  }
  const since = Date.now() - 30 * 86_400_000
  const cut = cutLog({
    log: stopped,
    archive: await Archive.open(openFolderStore(place, false)),
    address: place,
    checkpoints: await Promise.all(
      folds.map(async (fold) => ({ ...(await usableCheckpoint(log, fold, wanted)), topics: fold.topics })),
    ),
    since,
    needed: await neededTurns(log, { policy: 'policy', checkpoints, since, unscored: [], observer }),
    deleteUnreadable: true,
    dryRun: false,
    now: () => Date.now(),
    observer,
    signal,
  })
  await rejects(cut, /stopped/)
}

/** A gateway with an empty disk and no archive, on a log that it closes. `session`: of a turn behind the checkpoint. */
const startsOnCutLog = async (log: KafkaLog, checkpoints: string, session: string): Promise<void> => {
  try {
    const without = openSnapshots(join(folder.path, 'without'))
    await rejects(startRig({ log, ports: { snapshots: without } }), { code: 'log_cut' })
    const lines: string[] = []
    const logLine = (line: string): void => void lines.push(line)
    const snapshots = openSnapshots(join(folder.path, 'emptied'), { checkpoints, logLine })
    const rig = await startRig({ log, ports: { snapshots } })
    const answer = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')] },
      headers: { 'x-session-id': session },
    })
    equal(answer.status, 200, await answer.clone().text())
    match(await (await rig.fetch('/metrics')).text(), /^instar_names_held(\{[^}]*\})? 160[0-9]$/m)
    await rig.stop()
    match(lines.join('\n'), /^gateway\.policy\.turns: starts from the checkpoint of [^\n]*$/)
  } finally {
    await log.close()
  }
}

const judge: Judge = {
  id: 'scripted',
  needsNextState: true,
  judge: ({ answer }) => Promise.resolve({ value: 1, note: answer, hint: null }),
}

/** The turns of the history are of 1970, which is no reason to close their sessions. */
const config = scorerConfig.parse({ idleMs: Number.MAX_SAFE_INTEGER })

/** One life of a scorer on its disk, until all is judged. Returns what it said of its snapshot. */
const scorerLife = async (log: KafkaLog): Promise<string[]> => {
  const lines: string[] = []
  const snapshots = openSnapshots(join(folder.path, 'scorer'), { logLine: (line) => void lines.push(line) })
  const errors: Error[] = []
  const onFatal = (error: Error): void => void errors.push(error)
  const scorer = createScorer({ log, snapshots, judges: [judge], now: Date.now, onFatal }, config)
  try {
    await scorer.start()
    while (!(await scorer.settled())) await setImmediate()
  } finally {
    await scorer.stop()
    await log.close()
  }
  deepEqual(errors, [])
  return lines
}

/** Two turns of a session, the first of which is to be judged. */
const SPOKEN = ['Is it cut?', 'Thanks'].map((content, i) =>
  encodeEvent(
    captured({
      session: 'spoken',
      messages: [
        { role: 'user', content: 'Is it cut?' },
        ...(i === 0
          ? []
          : [
              { role: 'assistant' as const, content: 'It is.' },
              { role: 'user' as const, content },
            ]),
      ],
      answer: i === 0 ? 'It is.' : 'Good.',
      at: Date.now() + i,
      policy: 'policy',
    }),
  ),
)

type Cut = {
  unarchived: { records: number; first: unknown[] }
  record: string | null
  completed: boolean
  topics: Record<'turns' | 'scores', { records: number; starts: Record<string, number> }>
}

test(
  'turns and scores that are archived and folded are deleted on Kafka; followers, checkpoints and the archive go on',
  { timeout: 480_000 },
  async (t) => {
    const [data, place] = [join(folder.path, 'data'), join(folder.path, 'archive')]
    const source = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    await source.append([...longHistory({ turns: 800 })])
    await source.close()
    const address = `kafka://${kafka.brokers.join(',')}`
    const env = { INSTAR_LOG: address, INSTAR_REGISTRY: addresses().registry, INSTAR_DATA: data }
    const done = async (args: string[]): Promise<unknown> => {
      const { code, json, err } = await instar([...args, '--json'], env)
      equal(code, 0, `${args.join(' ')}: ${err}`)
      return json
    }
    await done(['setup'])
    const { brokers } = kafka
    await writeUnreadable(brokers, 'turns', UNREADABLE)
    await done(['log', 'copy', '--from', `embedded:${data}`, '--to', address])
    const open = () =>
      openKafkaLog({ brokers, registry: addresses().registry, clientId: 'test', schemas: schemaTexts() })
    const log = await open()
    t.after(() => log.close())
    const handled = { turns: 0, scores: 0 }
    const follower = await log.subscribe({
      topics: ['turns', 'scores'],
      group: 'follower',
      from: 'start',
      handle: (records) => {
        for (const { topic } of records) handled[topic as 'turns' | 'scores'] += 1
      },
    })
    await follower.caughtUp()
    const { turns: before } = handled
    equal(before, 800)
    await done(['setup', '--upgraded'])
    await scorerLife(await open())
    await done(['checkpoint', 'scorer', 'trainer', 'publisher', 'gateway', 'audit'])
    await done(['archive', '--to', place])
    const planned = (await done(['archive', 'cut', '--from', place, '--dry-run'])) as Cut
    deepEqual(planned.unarchived, { records: 1, first: [{ topic: 'turns', partition: UNREADABLE, offset: 0 }] })
    const refused = await instar(['archive', 'cut', '--from', place], env)
    match(refused.err, new RegExp(`not_archived: nothing is cut: .* 1 cannot be read .*: turns ${UNREADABLE}@0`))
    deepEqual([refused.code, (await cutsOn(log)).length], [1, 0])
    deepEqual(Object.values((await log.starts(['turns'])).turns!).filter(Boolean), [])
    await stoppedBetweenTopics(log, place, readSettings(env, '/').checkpoints)
    deepEqual(Object.values((await log.starts(['scores'])).scores!).filter(Boolean), [])
    const [{ event: allowed }] = (await cutsOn(log)) as [LoggedCut]
    const cut = (await done(['archive', 'cut', '--from', place])) as Cut
    deepEqual([cut.record, cut.completed, (await cutsOn(log)).length], [null, true, 1])
    const after = await log.starts(['turns', 'scores'])
    for (const { topic, partition, start } of allowed.starts)
      equal(after[topic as 'turns' | 'scores']![partition], start)
    const deleted = planned.topics.turns.records - planned.unarchived.records
    ok(deleted > 600 && planned.topics.scores.records > 600, JSON.stringify(planned.topics))
    equal(cut.topics.scores.records, planned.topics.scores.records)
    const { turns: starts } = (await log.starts(['turns'])) as { turns: Record<string, number> }
    deepEqual(starts, cut.topics.turns.starts)
    equal((await all(log.read('turns', { from: { turns: starts } }))).length, 800 - deleted)
    for (const reader of [log, await open()]) await rejects(async () => all(reader.read('turns')), isCutAway)

    const [newest] = [...longHistory({ turns: 900 })].filter(({ topic }) => topic === 'turns').slice(-1)
    await log.append([newest!])
    await follower.caughtUp()
    equal(handled.turns, 801)
    await follower.stop()
    await startsOnCutLog(await open(), readSettings(env, '/').checkpoints, newest!.key)
    const scoredUntil = await log.ends(['scores'])
    await log.append(SPOKEN)
    deepEqual(await scorerLife(await open()), [])
    const scores = await all(log.read('scores', { from: scoredUntil }))
    deepEqual(
      scores.map((record) => decodeRecord(record).event as ScoresEvent).map(({ type, session }) => [type, session]),
      [['TurnScored', 'spoken']],
    )
    const again = (await done(['archive', 'cut', '--from', place])) as Cut
    deepEqual([again.record, again.completed], [null, false])
    await done(['verify', 'all', '--from-checkpoint', '--digests'])
    await done(['checkpoint', 'scorer'])
    await done(['archive', '--to', place])
    const { log: compared } = (await done(['archive', 'verify', '--from', place, '--log'])) as {
      log: { first: unknown; behind: number }
    }
    deepEqual([compared.first, compared.behind], [null, 0])
    await log.close()
  },
)
