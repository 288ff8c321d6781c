/** Findings about brokers, topics and their settings. */
import { FLOW, TOPICS, type Topic } from '@instar/events/flow'
import { defaultCounts } from '@instar/log/partition'
import type { ClusterState, GroupLag, TopicState } from '@instar/log/kafka/index'
import { countText, note, ok, wrong, type Finding } from './finding.ts'

export const brokerFindings = ({ brokers, kafka, clusterId }: ClusterState): Finding[] => {
  const list = brokers.map(({ id, address, controller }) => `${id}${controller ? ' controller' : ''} ${address}`)
  const found = `${countText(brokers.length, 'broker')} (${list.join(', ')}), Kafka ${kafka}, cluster ${clusterId}`
  return [
    kafka === 'older than 4.0'
      ? note(found, 'Instar is tested with Kafka 4.3.1. Upgrade the brokers, or test with this version.')
      : ok(found),
  ]
}

/** `replication`: INSTAR_REPLICATION; `partitions`: INSTAR_PARTITIONS. */
export const topicFindings = (
  { topics, missing, brokers }: ClusterState,
  replication: number,
  partitions: Partial<Record<string, number>> = {},
): Finding[] => {
  const findings: Finding[] = []
  if (missing.length > 0)
    findings.push(wrong(`missing: ${missing.join(', ')}`, 'Run `instar setup`; it is safe to run again.'))
  for (const topic of topics) findings.push(...topicFinding(topic, replication, brokers.length, partitions[topic.name]))
  if (findings.length > 0) return findings
  const counts = TOPICS.flatMap((topic) =>
    topics
      .filter(({ name }) => name === topic)
      .map(({ name, partitions: count, replicas }) => `${name} ${count}${replicas > 1 ? ` ×${replicas}` : ''}`),
  )
  return [ok(`partitions: ${counts.join(', ')}; each has a leader and all replicas in sync`)]
}

/** `brokers`: their number. `configured`: partitions of the topic by INSTAR_PARTITIONS. */
const topicFinding = (
  { name, partitions, replicas, leaderless, behind }: TopicState,
  replication: number,
  brokers: number,
  configured?: number,
): Finding[] => {
  const findings: Finding[] = []
  const allowed =
    configured !== undefined ? [configured] : Object.hasOwn(FLOW, name) ? defaultCounts(name as Topic) : [1]
  const expected = allowed.at(-1)!
  if (!allowed.includes(partitions))
    findings.push(
      wrong(
        `${name} has ${partitions} partitions, ${allowed.join(' or ')} are configured`,
        `If the topic was made with ${partitions} partitions, set INSTAR_PARTITIONS=${name}=${partitions} for every service. If partitions were added to it, that would distribute the records of a key over several: copy the log into another one (\`instar log copy --partitions ${name}=${expected}\`) and continue with the copy.`,
      ),
    )
  if (leaderless > 0)
    findings.push(
      wrong(
        `${name}: ${countText(leaderless, 'partition')} without a leader`,
        'Start the broker that is down: until then these partitions can be neither read nor written. Do not allow an unclean leader election: it loses records.',
      ),
    )
  if (behind > 0)
    findings.push(
      note(
        `${name}: ${countText(behind, 'partition')} with fewer in-sync replicas than replicas`,
        'A broker is down or catching up. Start it: with one replica in sync, the next failure stops writes.',
      ),
    )
  if (replicas < replication)
    findings.push(
      note(
        `${name} has ${countText(replicas, 'replica')}, INSTAR_REPLICATION is ${replication}`,
        `Add replicas with kafka-reassign-partitions.sh (the cluster has ${countText(brokers, 'broker')}), then set min.insync.replicas. \`instar setup\` sets the replication of new topics only.`,
      ),
    )
  return findings
}

/** Setting → the effect of a value other than that of `instar setup`. */
const EFFECTS: Readonly<Record<string, string>> = {
  'cleanup.policy': 'a value other than `delete` removes earlier records of a key',
  'retention.ms': 'older records are deleted, and the log is the only copy of them',
  'retention.bytes': 'records beyond this size are deleted, and the log is the only copy of them',
  'compression.type': 'the broker compresses records again, with a codec that Instar may not read',
  'max.message.bytes': 'larger records are refused',
  'message.timestamp.type': "records get the broker's time instead of their own",
  'message.timestamp.after.max.ms': 'records of a machine whose clock is ahead are refused',
  'unclean.leader.election.enable': 'a broker that lacks acknowledged records may become leader',
  'min.insync.replicas': 'records are acknowledged by more or fewer replicas than intended',
  'flush.messages': 'with one replica, acknowledged records may be lost in a power failure',
}

/** `bootstrap`: the brokers, as Kafka's tools take them. Dead letters are copies, so their settings are notes. */
export const settingFindings = (differing: ClusterState['differing'], bootstrap: string): Finding[] => {
  if (differing.length === 0) return [ok('as `instar setup` sets them: records are kept forever')]
  return differing.map(({ topic, setting, is, should }) => {
    const effect = EFFECTS[setting] ?? '`instar setup` sets another value'
    const found = `${topic}: ${setting} is ${is}, should be ${should}: ${effect}`
    const todo = `kafka-configs.sh --bootstrap-server ${bootstrap} --alter --entity-type topics --entity-name ${topic} --add-config ${setting}=${should}   (changes this setting only; \`instar setup\` changes no existing topic)`
    return topic.startsWith('dlq.') ? note(found, todo) : wrong(found, todo)
  })
}

export const groupFindings = (lags: readonly GroupLag[]): Finding[] => [
  ok(
    lags.length === 0
      ? 'no group has committed an offset (the groups of Instar only assign partitions)'
      : lags.map(({ group, topic, behind }) => `${group} ${topic}: ${behind} behind`).join(', '),
  ),
]
