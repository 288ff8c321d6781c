/** Names and settings of the log's topics on Kafka. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'

/** The brokers of `kafka://host:port,host:port`. Throws `bad_request`. */
export const brokersOf = (url: string): string[] => {
  const brokers = /^kafka:\/\/([^/?#]+)\/?$/.exec(url)?.[1]?.split(',') ?? []
  if (brokers.length === 0 || !brokers.every((broker) => /^[^:]+:\d+$/.test(broker)))
    throw new InstarError('bad_request', `${url} is not a Kafka address; use kafka://host:port,host:port`, { url })
  return brokers
}

export type TopicNames = {
  of(topic: Topic): string
  deadLetters(topic: Topic): string
  /** The topic of the schema ids. */
  schemas: string
  all: readonly string[]
}

/** Kafka's names of the topics. `prefix` separates several logs on one cluster. */
export const topicNames = (prefix = ''): TopicNames => {
  const of = (topic: Topic): string => `${prefix}${topic}`
  const deadLetters = (topic: Topic): string => `${prefix}dlq.${topic}`
  const schemas = `${prefix}schemas`
  return { of, deadLetters, schemas, all: [...TOPICS.map(of), ...TOPICS.map(deadLetters), schemas] }
}

/** Maximum bytes of a batch; a record has at most `MAX_RECORD_BYTES`, so that it fits into a batch. */
const MAX_MESSAGE_BYTES = 8 << 20
export const MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - (64 << 10)

/**
 * The topic settings: unlimited retention, no compaction, times of the producer. With one replica the broker flushes
 * each batch before it acknowledges it; with three or more, two in-sync replicas are required.
 */
export const topicSettings = (replication: number): Record<string, string> => ({
  'cleanup.policy': 'delete',
  'retention.ms': '-1',
  'retention.bytes': '-1',
  'compression.type': 'producer',
  'max.message.bytes': String(MAX_MESSAGE_BYTES),
  'message.timestamp.type': 'CreateTime',
  // Accepts all times: those of a copied log, and those of a clock that is ahead.
  'message.timestamp.after.max.ms': '9223372036854775807',
  'unclean.leader.election.enable': 'false',
  'min.insync.replicas': String(replication >= 3 ? 2 : 1),
  ...(replication === 1 ? { 'flush.messages': '1' } : {}),
})
