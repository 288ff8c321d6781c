/** Brokers, topics and their settings: what was found, and what to do about it. */
import { FLOW, TOPICS, type Topic } from '@instar/events/flow'
import type { ClusterFound, GroupLag, TopicFound } from '@instar/log/kafka/index'
import { counted, fine, note, wrong, type Finding } from './finding.ts'

export const brokersFound = ({ brokers, kafka, clusterId }: ClusterFound): Finding[] => {
  const said = `${counted(brokers.length, 'broker')} (${brokers.map(({ id, address, controller }) => `${id}${controller ? ' controller' : ''} ${address}`).join(', ')}), Kafka ${kafka}, cluster ${clusterId}`
  return [
    kafka === 'older than 4.0'
      ? note(said, 'Instar is tested with Kafka 4.3.1; this one may do, a newer one is known to.')
      : fine(said),
  ]
}

/** `replication`: INSTAR_REPLICATION; `partitions`: INSTAR_PARTITIONS. */
export const topicsFound = (
  { topics, missing, brokers }: ClusterFound,
  replication: number,
  partitions: Partial<Record<string, number>> = {},
): Finding[] => {
  const findings: Finding[] = []
  if (missing.length > 0)
    findings.push(wrong(`missing: ${missing.join(', ')}`, 'Run `instar setup`; it is safe to run again.'))
  for (const topic of topics) findings.push(...topicFound(topic, replication, brokers.length, partitions[topic.name]))
  const sound = TOPICS.flatMap((topic) =>
    topics
      .filter(({ name }) => name === topic)
      .map(({ name, partitions, replicas }) => `${name} ${partitions}${replicas > 1 ? ` ×${replicas}` : ''}`),
  )
  return findings.length > 0
    ? findings
    : [fine(`partitions: ${sound.join(', ')}; every one has a leader and all of its copies`)]
}

const topicFound = (
  { name, partitions, replicas, leaderless, behind }: TopicFound,
  replication: number,
  brokers: number,
  told?: number,
): Finding[] => {
  const findings: Finding[] = []
  const configured = told ?? (Object.hasOwn(FLOW, name) ? FLOW[name as Topic].partitions : 1)
  if (partitions !== configured)
    findings.push(
      wrong(
        `${name} has ${partitions} partitions, ${configured} are configured`,
        `If the log was made so, tell every service with INSTAR_PARTITIONS=${name}=${partitions}. A number of partitions is changed only by a copy, since a key's records must stay in one: \`instar log copy --partitions ${name}=${configured}\` into another log.`,
      ),
    )
  if (leaderless > 0)
    findings.push(
      wrong(
        `${name}: ${counted(leaderless, 'partition')} without a leader`,
        'Start the broker that is away: nothing of these partitions can be read or written until then. Do not allow an unclean election: it loses records.',
      ),
    )
  if (behind > 0)
    findings.push(
      note(
        `${name}: ${counted(behind, 'partition')} with fewer copies in step than there are`,
        'A broker is away or catching up. See that it comes back: with one copy left, the next failure stops writes.',
      ),
    )
  if (replicas < replication)
    findings.push(
      note(
        `${name} is kept in ${counted(replicas, 'copy', 'copies')}, INSTAR_REPLICATION says ${replication}`,
        `Add copies with kafka-reassign-partitions.sh (there ${brokers === 1 ? 'is 1 broker' : `are ${brokers} brokers`}), then set min.insync.replicas; setup makes new topics only.`,
      ),
    )
  return findings
}

/** What each setting of ours is for: what another value does. */
const AT_STAKE: Readonly<Record<string, string>> = {
  'cleanup.policy': 'anything but `delete` removes earlier records of a key',
  'retention.ms': 'records older than that are deleted, and the log is the only truth',
  'retention.bytes': 'records beyond that are deleted, and the log is the only truth',
  'compression.type': 'the broker compresses again, into what our reader may not know',
  'max.message.bytes': 'larger records are refused',
  'message.timestamp.type': 'records get the time of the broker instead of their own',
  'message.timestamp.after.max.ms': 'records of a machine whose clock is ahead are refused',
  'unclean.leader.election.enable': 'a broker that lacks acknowledged records may lead',
  'min.insync.replicas': 'a record is acknowledged with fewer or more copies than it should',
  'flush.messages': 'with one copy, what is acknowledged may be lost with the power',
}

/** `bootstrap`: of the brokers, as Kafka's own tools take it. Dead letters are copies, so theirs are worth a remark. */
export const settingsFound = (differing: ClusterFound['differing'], bootstrap: string): Finding[] => {
  if (differing.length === 0) return [fine('as `instar setup` makes them: kept for ever, in order, as they were given')]
  return differing.map(({ topic, setting, is, should }) => {
    const found = `${topic}: ${setting} is ${is}, should be ${should}: ${AT_STAKE[setting] ?? 'not as setup makes it'}`
    const todo = `kafka-configs.sh --bootstrap-server ${bootstrap} --alter --entity-type topics --entity-name ${topic} --add-config ${setting}=${should}   (changes this one alone; setup changes nothing that is there)`
    return topic.startsWith('dlq.') ? note(found, todo) : wrong(found, todo)
  })
}

export const groupsFound = (lags: readonly GroupLag[]): Finding[] => [
  fine(
    lags.length === 0
      ? 'no group has committed a position: ours only divide work, and where each reader is, it knows itself'
      : lags.map(({ group, topic, behind }) => `${group} ${topic}: ${behind} behind`).join(', '),
  ),
]
