import { deepEqual, equal, match } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TOPICS } from '@instar/events/flow'
import type { ClusterFound } from '@instar/log/kafka/index'
import { brokersFound, groupsFound, settingsFound, topicsFound } from './cluster.ts'
import { clocksFound, skewOf } from './clocks.ts'
import { lagFound, lagOf, migrationsFound, waitingFound } from './database.ts'
import { deadLettersFound } from './dead-letters.ts'
import { duration, faultOf, type Finding } from './finding.ts'
import { gatewaysFound } from './gateways.ts'
import { registryFound } from './registry.ts'
import { InstarError } from '@instar/events/errors'

const COUNTS = { turns: 8, scores: 4, updates: 4, weights: 4, blobs: 4, upgrades: 1 }
const topic = (name: string, partitions: number) => ({ name, partitions, replicas: 1, leaderless: 0, behind: 0 })
const cluster = (rest: Partial<ClusterFound> = {}): ClusterFound => ({
  clusterId: 'c',
  kafka: '4.0 or newer',
  brokers: [{ id: 1, address: 'kafka:9092', controller: true }],
  missing: [],
  differing: [],
  topics: TOPICS.flatMap((name) => [topic(name, COUNTS[name]), topic(`dlq.${name}`, 1)]),
  ...rest,
})
const levels = (findings: readonly Finding[]): string[] => findings.map(({ level }) => level)
/** One finding, and with what to do about it unless it is fine. */
const only = (findings: readonly Finding[], level: Finding['level'], found: RegExp, todo?: RegExp): void => {
  deepEqual(levels(findings), [level], JSON.stringify(findings))
  match(findings[0]!.found, found)
  equal(findings[0]!.todo === null, todo === undefined)
  if (todo) match(findings[0]!.todo!, todo)
}

describe('brokers and topics', () => {
  test('as they should be', () => {
    only(brokersFound(cluster()), 'ok', /^1 broker \(1 controller kafka:9092\), Kafka 4\.0 or newer, cluster c$/)
    only(topicsFound(cluster(), 1), 'ok', /^partitions: turns 8, scores 4, updates 4, weights 4, blobs 4, upgrades 1;/)
    only(settingsFound([], 'b'), 'ok', /kept for ever/)
    only(groupsFound([]), 'ok', /no group has committed/)
    only(groupsFound([{ group: 'g', topic: 'turns', behind: 3 }]), 'ok', /^g turns: 3 behind$/)
  })

  test('what is not: an older broker, a missing topic, another number of partitions, no leader, copies', () => {
    only(brokersFound(cluster({ kafka: 'older than 4.0' })), 'note', /older than 4\.0/, /tested with Kafka 4/)
    only(
      topicsFound(cluster({ topics: [], missing: ['turns', 'dlq.turns'] }), 1),
      'wrong',
      /missing: turns, dlq\.turns/,
      /instar setup/,
    )
    only(
      topicsFound(cluster({ topics: [topic('turns', 16)] }), 1),
      'wrong',
      /turns has 16 partitions, 8 are configured/,
      /instar log copy --partitions turns=8/,
    )
    only(
      topicsFound(cluster({ topics: [{ ...topic('turns', 8), leaderless: 2 }] }), 1),
      'wrong',
      /2 partitions without a leader/,
      /Start the broker/,
    )
    only(
      topicsFound(cluster({ topics: [{ ...topic('turns', 8), behind: 1 }] }), 1),
      'note',
      /1 partition with fewer copies/,
      /broker is away/,
    )
    only(
      topicsFound(cluster({ topics: [topic('turns', 8)] }), 3),
      'note',
      /turns is kept in 1 copy, INSTAR_REPLICATION says 3/,
      /there is 1 broker\)/,
    )
  })

  test('a setting of a topic is wrong, of its dead letters worth a note; the command changes it alone', () => {
    const found = settingsFound(
      [
        { topic: 'turns', setting: 'retention.ms', is: '1000', should: '-1' },
        { topic: 'dlq.turns', setting: 'cleanup.policy', is: 'compact', should: 'delete' },
      ],
      'a:1,b:2',
    )
    deepEqual(levels(found), ['wrong', 'note'])
    match(found[0]!.found, /^turns: retention\.ms is 1000, should be -1: records older than that are deleted/)
    match(
      found[0]!.todo!,
      /^kafka-configs\.sh --bootstrap-server a:1,b:2 --alter --entity-type topics --entity-name turns --add-config retention\.ms=-1 /,
    )
  })
})

describe('registry', () => {
  const clock = { before: 0, theirs: 0, after: 0 }
  const NUMBERS = { lost: [], other: [] }
  const subject = (name: string, compatibility: string | null = 'BACKWARD_TRANSITIVE', missing: string[] = []) => ({
    subject: name,
    compatibility,
    missing,
  })
  const URL = 'http://registry:8080/apis/ccompat/v7/'
  test('schemas and their compatibility', () => {
    only(
      registryFound({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B')] }, URL),
      'ok',
      /2 subjects, each holds/,
    )
    only(
      registryFound({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B', 'NONE')] }, URL),
      'wrong',
      /^B: compatibility is NONE, should be BACKWARD_TRANSITIVE/,
      /^curl -X PUT .*v7\/config\/B$/,
    )
    only(registryFound({ clock, numbers: NUMBERS, subjects: [subject('A', null)] }, URL), 'wrong', /is not set/, /curl/)
    only(
      registryFound({ clock, numbers: NUMBERS, subjects: [subject('A'), subject('B', null, ['B.v2'])] }, URL),
      'wrong',
      /does not hold B\.v2/,
      /setup` of this build/,
    )
    only(
      registryFound({ clock, numbers: NUMBERS, subjects: [subject('A', null, ['A.v1'])] }, URL),
      'wrong',
      /does not hold A\.v1/,
      /another registry/,
    )
    const empty = [subject('A', null, ['A.v1', 'A.v2']), subject('B', null, ['B.v1'])]
    only(
      registryFound({ clock, numbers: NUMBERS, subjects: empty }, URL),
      'wrong',
      /does not hold A\.v1, A\.v2, B\.v1/,
      /another registry/,
    )
  })
  test('numbers of the log that it has lost, or gives another schema', () => {
    const row = { id: 7, schema: 'A.v1' }
    const subjects = [subject('A')]
    only(
      registryFound({ clock, numbers: { lost: [row], other: [] }, subjects }, URL),
      'wrong',
      /^it has lost schemas of the log: 7 \(A\.v1\)/,
      /instar setup/,
    )
    only(
      registryFound({ clock, numbers: { lost: [], other: [row] }, subjects }, URL),
      'wrong',
      /^it has other schemas than the log under 7 \(A\.v1\)/,
      /empty it/,
    )
  })
})

describe('read model', () => {
  test('migrations', () => {
    only(migrationsFound({ state: 'current', applied: 3, ours: 3 }), 'ok', /all 3 migrations/)
    only(migrationsFound({ state: 'none', applied: 0, ours: 3 }), 'wrong', /no tables/, /instar setup/)
    only(migrationsFound({ state: 'older', applied: 1, ours: 3 }), 'wrong', /1 of 3/, /instar setup/)
    only(migrationsFound({ state: 'other', applied: 3, ours: 3 }), 'wrong', /another build/, /one build only/)
    only(migrationsFound({ state: 'other', applied: 4, ours: 3 }), 'wrong', /newer build/, /leave the tables alone/)
  })

  test('lag: what is not projected, since when, and of which log', () => {
    const mark = { topic: 'turns' as const, partition: 0, next: 5, last: 'e', current: true }
    const there = lagOf(mark, 5, undefined, 'e')
    const late = lagOf(mark, 8, { timestamp: 1000 }, 'e')
    deepEqual([there.behind, late.behind, late.oldest, late.other], [0, 3, 1000, false])
    only(lagFound([there], 9e9), 'ok', /every record/)
    only(lagFound([there, late], 3000), 'ok', /^3 records behind \(turns 3\), the oldest written 2\.0 s ago$/)
    only(lagFound([there, late], 1000 + 600_000), 'wrong', /3 records behind .* 10 min ago/, /Start the projections/)
    only(lagFound([lagOf(mark, 8, undefined, 'e')], 1000), 'ok', /3 records behind/)
    for (const other of [
      lagOf(mark, 8, undefined, 'x'),
      lagOf(mark, 8, undefined, null),
      lagOf(mark, 4, undefined, null),
    ])
      only(lagFound([other], 0), 'wrong', /another log/, /INSTAR_LOG and DATABASE_URL/)
    only(
      lagFound([lagOf({ ...mark, next: 0, last: '', current: false }, 0, undefined, null)], 0),
      'wrong',
      /another build/,
      /fill the tables anew/,
    )
  })

  test('what waits for a service is a note once it waits too long', () => {
    only(waitingFound([{ what: 'scores', count: 0, since: null }], 0), 'ok', /nothing waits/)
    only(
      waitingFound([{ what: 'scores', count: 2, since: 1000 }], 31_000),
      'ok',
      /^2 turns wait for their scores, the oldest for 30 s$/,
    )
    only(
      waitingFound([{ what: 'scores', count: 1, since: 0 }], 300_000),
      'note',
      /^1 turn waits for its score, the oldest for 5 min$/,
      /scorer is away/,
    )
    only(
      waitingFound([{ what: 'updates', count: 1, since: 0 }], 3_600_000),
      'note',
      /1 sealed batch waits .* 60 min/,
      /trainer/,
    )
    only(waitingFound([{ what: 'verdicts', count: 2, since: 0 }], 3_600_000), 'note', /2 updates wait/, /publisher/)
  })
})

test('gateways: every one behind the name, one that is not ready, one that is behind', () => {
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
    fault: null,
    clock: null,
  })
  const away = {
    address: 'http://b:1',
    status: null,
    fault: new Error('No gateway answers at http://b:1.'),
    clock: null,
  }
  only(gatewaysFound([], 'http://gateway:1'), 'unsure', /^no gateway answers at http:\/\/gateway:1$/, /INSTAR_HOST/)
  only(gatewaysFound([away], 'http://b:1'), 'unsure', /no gateway answers/, /INSTAR_HOST/)
  only(
    gatewaysFound(
      [{ ...away, fault: new InstarError('invalid_api_key', 'You did not send an API key.') }],
      'http://b:1',
    ),
    'unsure',
    /^http:\/\/b:1 answers, and says no more without an API key/,
    /INSTAR_KEY/,
  )
  only(gatewaysFound([gateway()], 'u'), 'ok', /^http:\/\/a:1 serves version 3, 2 answers wait for the log$/)
  only(gatewaysFound([gateway({ frozen: true })], 'u'), 'ok', /version 3, learning is frozen/)
  only(gatewaysFound([gateway({ head: 4 })], 'u'), 'note', /serves version 3.*the head is 4/, /fetches/)
  only(
    gatewaysFound([gateway({ status: 'log not taking' })], 'u'),
    'wrong',
    /it is log not taking/,
    /comes back by itself/,
  )
  deepEqual(levels(gatewaysFound([gateway(), away], 'u')), ['ok', 'note'])
})

test('clocks: only what the way there and back, and whole seconds, do not explain', () => {
  equal(skewOf({ before: 1000, theirs: 1500, after: 2000 }), 0)
  equal(skewOf({ before: 1000, theirs: 2500, after: 2000 }), 500)
  equal(skewOf({ before: 1000, theirs: 400, after: 2000 }), -600)
  equal(skewOf({ before: 1900, theirs: 1000, after: 1950, resolution: 1000 }), 0)
  equal(skewOf({ before: 3900, theirs: 1000, after: 3950, resolution: 1000 }), -1900)
  const at = (who: string, theirs: number) => ({ who, before: 100_000, theirs, after: 100_010 })
  only(
    clocksFound([at('PostgreSQL', 100_005), at('the registry', 100_900)]),
    'ok',
    /within a second .*: PostgreSQL, the registry/,
  )
  const found = clocksFound([at('PostgreSQL', 103_010), at('the gateway', 30_000)])
  deepEqual(
    found.map(({ level, found: text }) => [level, text]),
    [
      ['note', 'PostgreSQL is 3.0 s ahead of this machine'],
      ['wrong', 'the gateway is 70 s behind this machine'],
    ],
  )
  match(found[0]!.todo!, /NTP/)
})

test('dead letters: each kind of each topic with its place and what to do', () => {
  only(deadLettersFound([]), 'ok', /none/)
  const letter = (topic: 'turns' | 'scores', offset: number, reason: string) => ({
    topic,
    partition: 3,
    offset,
    reason,
  })
  const found = deadLettersFound([
    letter('turns', 7, 'there is no schema 99'),
    letter('turns', 9, 'its value does not begin with a schema id'),
    letter('turns', 10, 'it has no key'),
    letter('scores', 1, 'scores 3@1 is not a TurnScored.v1: truncated'),
  ])
  deepEqual(levels(found), ['note', 'note', 'note'])
  match(found[0]!.found, /^turns: 1 record that nobody can read: 3@7 \(there is no schema 99\)/)
  match(found[0]!.todo!, /INSTAR_REGISTRY/)
  match(found[1]!.found, /^turns: 2 records that nobody can read: 3@9 \(.*\), 3@10 \(it has no key\)/)
  match(found[1]!.todo!, /other than Instar writes/)
  match(found[2]!.todo!, /schema of its type/)
  match(
    deadLettersFound(Array.from({ length: 8 }, (_, i) => letter('turns', i, 'it has no key')))[0]!.found,
    /and 3 more/,
  )
})

test('what a look throws is wrong, with the todo of its code', () => {
  only([faultOf(new InstarError('not_set_up', 'x'))], 'wrong', /^not_set_up: x$/, /setup/)
  only([faultOf(new Error('y'))], 'wrong', /^internal: y$/, /Report it/)
  deepEqual([50, 9_949, 61_000, 7_100_000, 9e7, 9e8].map(duration), [
    '0.1 s',
    '9.9 s',
    '61 s',
    '118 min',
    '25 h',
    '10 days',
  ])
})
