/** Names and settings of the topics on Kafka. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'

/** `kafka://host:port,host:port` → its brokers. */
export const brokersOf = (url: string): string[] => {
  const brokers = /^kafka:\/\/([^/?#]+)\/?$/.exec(url)?.[1]?.split(',') ?? []
  if (brokers.length === 0 || !brokers.every((broker) => /^[^:]+:\d+$/.test(broker)))
    throw new InstarError('bad_request', `${url} is not of the form kafka://host:port,host:port`, { url })
  return brokers
}

export type TopicNames = {
  of(topic: Topic): string
  deadLetters(topic: Topic): string
  /** Which number stands for which schema. */
  schemas: string
  all: readonly string[]
}

/** `prefix` keeps several logs on one cluster apart. */
export const topicNames = (prefix = ''): TopicNames => {
  const of = (topic: Topic): string => `${prefix}${topic}`
  const deadLetters = (topic: Topic): string => `${prefix}dlq.${topic}`
  const schemas = `${prefix}schemas`
  return { of, deadLetters, schemas, all: [...TOPICS.map(of), ...TOPICS.map(deadLetters), schemas] }
}

/** Kafka's limit for a batch; a record is at most `MAX_RECORD_BYTES`, so that one always fits. */
const MAX_MESSAGE_BYTES = 8 << 20
export const MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - (64 << 10)

/**
 * For ever, in order, as they were given. With one copy the broker flushes each batch before it acknowledges
 * it; with three, two of them have it.
 */
export const topicSettings = (replication: number): Record<string, string> => ({
  'cleanup.policy': 'delete',
  'retention.ms': '-1',
  'retention.bytes': '-1',
  'compression.type': 'producer',
  'max.message.bytes': String(MAX_MESSAGE_BYTES),
  'message.timestamp.type': 'CreateTime',
  // A copied log keeps its times, and a clock that is ahead loses nothing.
  'message.timestamp.after.max.ms': '9223372036854775807',
  'unclean.leader.election.enable': 'false',
  'min.insync.replicas': String(replication >= 3 ? 2 : 1),
  ...(replication === 1 ? { 'flush.messages': '1' } : {}),
})
