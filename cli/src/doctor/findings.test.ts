import { deepEqual, equal, match } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { recordId } from '@instar/events'
import { TOPICS } from '@instar/events/flow'
import { openMemoryLog } from '@instar/log'
import type { ClusterState } from '@instar/log/kafka/index'
import { brokerFindings, groupFindings, settingFindings, topicFindings } from './cluster.ts'
import { clockFindings, skewOf } from './clocks.ts'
import { lagFindings, lagOf, migrationFindings, projectionFindings, workFindings } from '@instar/projections/findings'
import { NOT_OF_THE_LOG } from '@instar/log/kafka/index'
import { UnreadableRecords } from './dead-letters.ts'
import { durationText, errorFinding, errorsOnce, type Finding } from './finding.ts'
import { gatewayFindings } from './gateways.ts'
import { registryFindings } from './registry.ts'
import { InstarError } from '@instar/events/errors'
import { cutBelow } from '../../../test/kit/event-log/cut-log.ts'
import { all, note } from '../../../test/kit/event-log/harness.ts'

const COUNTS = { turns: 8, scores: 4, updates: 4, weights: 4, blobs: 4, upgrades: 1 }
const topic = (name: string, partitions: number) => ({ name, partitions, replicas: 1, leaderless: 0, behind: 0 })
const cluster = (rest: Partial<ClusterState> = {}): ClusterState => ({
  clusterId: 'c',
  kafka: '4.0 or newer',
  brokers: [{ id: 1, address: 'kafka:9092', controller: true }],
  missing: [],
  differing: [],
  topics: TOPICS.flatMap((name) => [topic(name, COUNTS[name]), topic(`dlq.${name}`, 1)]),
  ...rest,
})
const levels = (findings: readonly Finding[]): string[] => findings.map(({ level }) => level)
/** Expects one finding, with a todo unless it is ok. */
const expectOne = (findings: readonly Finding[], level: Finding['level'], found: RegExp, todo?: RegExp): void => {
  deepEqual(levels(findings), [level], JSON.stringify(findings))
  match(findings[0]!.found, found)
  equal(findings[0]!.todo === null, todo === undefined)
  if (todo) match(findings[0]!.todo!, todo)
}

describe('brokers and topics', () => {
  test('a sound cluster', () => {
    expectOne(brokerFindings(cluster()), 'ok', /^1 broker \(1 controller kafka:9092\), Kafka 4\.0 or newer, cluster c$/)
    expectOne(
      topicFindings(cluster(), 1),
      'ok',
      /^partitions: turns 8, scores 4, updates 4, weights 4, blobs 4, upgrades 1;/,
    )
    expectOne(settingFindings([], 'b'), 'ok', /kept forever/)
    expectOne(groupFindings([]), 'ok', /no group has committed/)
    expectOne(groupFindings([{ group: 'g', topic: 'turns', behind: 3 }]), 'ok', /^g turns: 3 behind$/)
  })

  test('an older broker, a missing topic, other partition counts, no leader, too few replicas', () => {
    expectOne(brokerFindings(cluster({ kafka: 'older than 4.0' })), 'note', /older than 4\.0/, /tested with Kafka 4/)
    expectOne(
      topicFindings(cluster({ topics: [], missing: ['turns', 'dlq.turns'] }), 1),
      'wrong',
      /missing: turns, dlq\.turns/,
      /instar setup/,
    )
    expectOne(
      topicFindings(cluster({ topics: [topic('turns', 16)] }), 1),
      'wrong',
      /turns has 16 partitions, 8 or 64 are configured/,
      /instar log copy --partitions turns=64/,
    )
    expectOne(topicFindings(cluster({ topics: [topic('turns', 64)] }), 1), 'ok', /turns 64/)
    expectOne(
      topicFindings(cluster({ topics: [topic('turns', 64)] }), 1, { turns: 8 }),
      'wrong',
      /turns has 64 partitions, 8 are configured/,
      /INSTAR_PARTITIONS=turns=64/,
    )
    expectOne(
      topicFindings(cluster({ topics: [{ ...topic('turns', 8), leaderless: 2 }] }), 1),
      'wrong',
      /2 partitions without a leader/,
      /Start the broker/,
    )
    expectOne(
      topicFindings(cluster({ topics: [{ ...topic('turns', 8), behind: 1 }] }), 1),
      'note',
      /1 partition with fewer in-sync replicas/,
      /broker is down/,
    )
    expectOne(
      topicFindings(cluster({ topics: [topic('turns', 8)] }), 3),
      'note',
      /turns has 1 replica, INSTAR_REPLICATION is 3/,
      /has 1 broker\)/,
    )
  })

  test('a differing setting is wrong for a topic, a note for its dead letters; the command changes only it', () => {
    const found = settingFindings(
      [
        { topic: 'turns', setting: 'retention.ms', is: '1000', should: '-1' },
        { topic: 'dlq.turns', setting: 'cleanup.policy', is: 'compact', should: 'delete' },
      ],
      'a:1,b:2',
    )
    deepEqual(levels(found), ['wrong', 'note'])
    match(found[0]!.found, /^turns: retention\.ms is 1000, should be -1: older records are deleted/)
    match(
      found[0]!.todo!,
      /^kafka-configs\.sh --bootstrap-server a:1,b:2 --alter --entity-type topics --entity-name turns --add-config retention\.ms=-1 /,
    )
  })
})

describe('registry', () => {
  const clock = { before: 0, remote: 0, after: 0 }
  const NUMBERS = { lost: [], other: [] }
  const subject = (name: string, compatibility: string | null = 'BACKWARD_TRANSITIVE', missing: string[] = []) => ({
    subject: name,
    compatibility,
    missing,
  })
  const URL = 'http://registry:8080/apis/ccompat/v7/'
  test('schemas and their compatibility', () => {
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B')] }, URL),
      'ok',
      /2 subjects, each with the schemas of this build/,
    )
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B', 'NONE')] }, URL),
      'wrong',
      /^B: compatibility is NONE, should be BACKWARD_TRANSITIVE/,
      /^curl -X PUT .*v7\/config\/B$/,
    )
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: [subject('A', null)] }, URL),
      'wrong',
      /is not set/,
      /curl/,
    )
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B', null, ['B.v2'])] }, URL),
      'wrong',
      /does not hold the schemas B\.v2 of this build/,
      /setup` of this build/,
    )
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: [subject('A', null, ['A.v1'])] }, URL),
      'wrong',
      /does not hold the schemas A\.v1/,
      /not the registry/,
    )
    const empty = [subject('A', null, ['A.v1', 'A.v2']), subject('B', null, ['B.v1'])]
    expectOne(
      registryFindings({ clock, numbers: NUMBERS, subjects: empty }, URL),
      'wrong',
      /does not hold the schemas A\.v1, A\.v2, B\.v1/,
      /not the registry/,
    )
  })
  test('schema ids of the log that the registry has lost or gave to another schema', () => {
    const row = { id: 7, schema: 'A.v1' }
    const subjects = [subject('A')]
    expectOne(
      registryFindings({ clock, numbers: { lost: [row], other: [] }, subjects }, URL),
      'wrong',
      /^it has lost schemas of the log: 7 \(A\.v1\)/,
      /instar setup/,
    )
    expectOne(
      registryFindings({ clock, numbers: { lost: [], other: [row] }, subjects }, URL),
      'wrong',
      /^it has other schemas than the log under the ids 7 \(A\.v1\)/,
      /empty it/,
    )
  })
})

describe('read model', () => {
  test('migrations', () => {
    expectOne(migrationFindings({ state: 'current', applied: 3, ours: 3 }), 'ok', /all 3 migrations/)
    expectOne(migrationFindings({ state: 'none', applied: 0, ours: 3 }), 'wrong', /no tables/, /instar setup/)
    expectOne(migrationFindings({ state: 'older', applied: 1, ours: 3 }), 'wrong', /1 of 3/, /instar setup/)
    expectOne(migrationFindings({ state: 'other', applied: 3, ours: 3 }), 'wrong', /another build/, /one build only/)
    expectOne(
      migrationFindings({ state: 'other', applied: 4, ours: 3 }),
      'wrong',
      /newer build/,
      /do not change the tables/,
    )
  })

  test('lag: records that are not projected, their age, rows of another log', () => {
    const mark = { topic: 'turns' as const, partition: 0, next: 5, last: 'e', current: true }
    const current = lagOf(mark, 5, undefined, 'e')
    const late = lagOf(mark, 8, { timestamp: 1000 }, 'e')
    deepEqual([current.behind, late.behind, late.oldest, late.otherLog], [0, 3, 1000, false])
    expectOne(lagFindings([current], 9e9), 'ok', /every record/)
    expectOne(lagFindings([current, late], 3000), 'ok', /^3 records behind \(turns 3\), the oldest written 2\.0 s ago$/)
    expectOne(
      lagFindings([current, late], 1000 + 600_000),
      'wrong',
      /3 records behind .* 10 min ago/,
      /Start the projections/,
    )
    expectOne(lagFindings([lagOf(mark, 8, undefined, 'e')], 1000), 'ok', /3 records behind/)
    for (const otherLog of [
      lagOf(mark, 8, undefined, 'x'),
      lagOf(mark, 8, undefined, null),
      lagOf(mark, 4, undefined, null),
    ])
      expectOne(lagFindings([otherLog], 0), 'wrong', /another log/, /INSTAR_LOG and DATABASE_URL/)
    expectOne(
      lagFindings([lagOf({ ...mark, next: 0, last: '', current: false }, 0, undefined, null)], 0),
      'wrong',
      /another build/,
      /fill the tables again/,
    )
  })

  test('lag: a mark at or before a cut is no fault of doctor, and says what the projections need', async () => {
    const log = openMemoryLog({ partitions: { turns: 1, scores: 1 } })
    const records = Array.from({ length: 10 }, (_, i) => note('k', `${i}`, { timestamp: 1000 + i }))
    await log.append(records)
    const ids = (await all(log.read('turns'))).map((record) => recordId(record))
    await cutBelow(log, { turns: 8 }, { archive: '/archive', manifest: 'm' })
    const found = (next: number): Promise<Finding[]> => {
      const mark = { topic: 'turns' as const, partition: 0, next, last: ids[next - 1]!, current: true }
      return projectionFindings(log, { migrations: { state: 'current', applied: 1, ours: 1 }, marks: [mark] }, 2000)
    }
    // The log begins at 7: of the marks 7 and 8 the record before is cut, and held.
    for (const next of [7, 8]) expectOne(await found(next), 'ok', /^\d+ records? behind \(turns \d\)/)
    const [lag, cut] = await found(3)
    match(lag!.found, /^7 records behind/)
    expectOne(
      [cut!],
      'wrong',
      /^records that are not in PostgreSQL were cut from the log \(turns 0\)$/,
      /INSTAR_ARCHIVE/,
    )
  })

  test('unfinished work is a note once it is too old', () => {
    expectOne(workFindings([{ what: 'scores', count: 0, since: null }], 0), 'ok', /no unfinished work/)
    expectOne(
      workFindings([{ what: 'scores', count: 2, since: 1000 }], 31_000),
      'ok',
      /^2 turns have no score yet, the oldest for 30 s$/,
    )
    expectOne(
      workFindings([{ what: 'scores', count: 1, since: 0 }], 300_000),
      'note',
      /^1 turn has no score yet, the oldest for 5 min$/,
      /scorer is down/,
    )
    expectOne(
      workFindings([{ what: 'updates', count: 1, since: 0 }], 3_600_000),
      'note',
      /1 sealed batch has no update yet.* 60 min/,
      /trainer/,
    )
    expectOne(
      workFindings([{ what: 'verdicts', count: 2, since: 0 }], 3_600_000),
      'note',
      /2 updates have no verdict/,
      /publisher/,
    )
  })
})

test('gateways: one finding each; not ready, behind the head, not answering, refusing the key', () => {
  const status = {
    status: 'ready',
    problem: null,
    head: 3,
    serving: 3,
    frozen: false,
    log: { pending: 2, unreadable: 0 },
  }
  const gateway = (rest: Partial<typeof status> & { problem?: null } = {}) => ({
    address: 'http://a:1',
    status: { ...status, ...rest },
    error: null,
    clock: null,
  })
  const down = {
    address: 'http://b:1',
    status: null,
    error: new Error('No gateway answers at http://b:1.'),
    clock: null,
  }
  expectOne(
    gatewayFindings([], 'http://gateway:1'),
    'unsure',
    /^no gateway answers at http:\/\/gateway:1$/,
    /INSTAR_HOST/,
  )
  expectOne(gatewayFindings([down], 'http://b:1'), 'unsure', /no gateway answers/, /INSTAR_HOST/)
  expectOne(
    gatewayFindings(
      [{ ...down, error: new InstarError('invalid_api_key', 'You did not send an API key.') }],
      'http://b:1',
    ),
    'unsure',
    /^http:\/\/b:1 answers, but its status needs an API key/,
    /INSTAR_KEY/,
  )
  expectOne(
    gatewayFindings([gateway()], 'u'),
    'ok',
    /^http:\/\/a:1 serves version 3, 2 answers are waiting for the log$/,
  )
  expectOne(gatewayFindings([gateway({ frozen: true })], 'u'), 'ok', /version 3, learning is frozen/)
  expectOne(
    gatewayFindings([gateway({ head: 4 })], 'u'),
    'note',
    /serves version 3.*the head is 4/,
    /loads the new version/,
  )
  expectOne(
    gatewayFindings([gateway({ status: 'log not taking' })], 'u'),
    'wrong',
    /it is log not taking/,
    /recovers by itself/,
  )
  deepEqual(levels(gatewayFindings([gateway(), down], 'u')), ['ok', 'note'])
})

test('clocks: only a skew that neither the request nor the resolution explains is a finding', () => {
  equal(skewOf({ before: 1000, remote: 1500, after: 2000 }), 0)
  equal(skewOf({ before: 1000, remote: 2500, after: 2000 }), 500)
  equal(skewOf({ before: 1000, remote: 400, after: 2000 }), -600)
  equal(skewOf({ before: 1900, remote: 1000, after: 1950, resolution: 1000 }), 0)
  equal(skewOf({ before: 3900, remote: 1000, after: 3950, resolution: 1000 }), -1900)
  const reading = (source: string, remote: number) => ({ source, before: 100_000, remote, after: 100_010 })
  expectOne(
    clockFindings([reading('PostgreSQL', 100_005), reading('the registry', 100_900)]),
    'ok',
    /within a second .*: PostgreSQL, the registry/,
  )
  const found = clockFindings([reading('PostgreSQL', 103_010), reading('the gateway', 30_000)])
  deepEqual(
    found.map(({ level, found: text }) => [level, text]),
    [
      ['note', 'PostgreSQL is 3.0 s ahead of this machine'],
      ['wrong', 'the gateway is 70 s behind this machine'],
    ],
  )
  match(found[0]!.todo!, /NTP/)
})

const deadLetterFindings = (
  letters: Iterable<Parameters<UnreadableRecords['addDeadLetter']>[0]>,
  damaged: ConstructorParameters<typeof UnreadableRecords>[0] = [],
): Finding[] => {
  const records = new UnreadableRecords(damaged)
  for (const letter of letters) records.addDeadLetter(letter)
  return records.findings()
}

test('dead letters: one finding for each topic and cause, with positions', () => {
  expectOne(deadLetterFindings([]), 'ok', /none/)
  const letter = (topic: 'turns' | 'scores', offset: number, reason: string) => ({
    topic,
    partition: 3,
    offset,
    reason,
  })
  const found = deadLetterFindings(
    [
      ...Object.values(NOT_OF_THE_LOG).map((reason, i) => letter('turns', 9 + i, reason)),
      letter('turns', 20, 'written by a test of ours'),
    ],
    [
      letter('scores', 1, 'scores 3@1 is not a TurnScored.v1: truncated'),
      letter('turns', 20, 'turns 3@20 is not a TurnCaptured.v1: truncated'),
    ],
  )
  deepEqual(levels(found), ['note', 'note', 'note'])
  match(
    found[0]!.found,
    /^turns: 5 records that cannot be decoded: 3@9 \(.*\), 3@10 \(the record has no key\), 3@11 \(/,
  )
  match(found[0]!.todo!, /other than Instar writes/)
  match(found[1]!.found, /^turns: 1 record .*3@20 \(written by a test of ours\)/)
  match(found[1]!.todo!, /set-aside/)
  match(found[2]!.todo!, /schema of the record type/)
  match(
    deadLetterFindings(Array.from({ length: 8 }, (_, i) => letter('turns', i, NOT_OF_THE_LOG.noKey)))[0]!.found,
    /and 3 more/,
  )
})

test('an error of a check is wrong, with the todo of its code', () => {
  expectOne([errorFinding(new InstarError('not_set_up', 'x'))], 'wrong', /^not_set_up: x$/, /setup/)
  expectOne([errorFinding(new Error('y'))], 'wrong', /^internal: y$/, /Report it/)
  deepEqual([50, 9_949, 61_000, 7_100_000, 9e7, 9e8].map(durationText), [
    '0.1 s',
    '9.9 s',
    '61 s',
    '118 min',
    '25 h',
    '10 days',
  ])
})

test('an error that several checks end with is told once, and the others name the first', () => {
  const once = errorsOnce()
  const error = [errorFinding(new InstarError('not_set_up', 'x'))]
  deepEqual(once('log', error), error)
  deepEqual(once('log', error), error)
  expectOne(once('records', error), 'unsure', /^not checked, for the reason under log$/, /first/)
  const other = [errorFinding(new InstarError('not_set_up', 'y'))]
  deepEqual(once('records', other), other)
})
