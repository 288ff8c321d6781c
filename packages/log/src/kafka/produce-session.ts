/**
 * The producer id and sequence numbers of an idempotent producer, and its produce requests. Format and rules are those
 * of KIP-98: the broker recognizes a repeated batch by id and sequence number and responds with its offset.
 */
import { errorOfCode, produce, type Cluster } from './client.ts'
import { byTopic, splitByLeader } from './fetch.ts'
import type { ProducerBatch, QueuedRecord, Refusal } from './producer-batch.ts'

/** Sequence numbers are 31-bit and wrap to 0. */
const SEQUENCES = 2 ** 31
/** Milliseconds that the broker waits for the in-sync replicas. */
const ACKS_TIMEOUT = 30_000

/** Called with the records of a batch that a broker acknowledged. `baseOffset`: of the first; -1 if unknown. */
type OnWritten = (batch: ProducerBatch, records: QueuedRecord[], baseOffset: number) => void

export class ProduceSession {
  #identity: { producerId: string; producerEpoch: number } | undefined
  readonly #sequences = new Map<string, number>()

  /** The broker rejected the producer id: the next request uses a new one. */
  reset(): void {
    this.#identity = undefined
  }

  /**
   * Sends one request to each leader, and marks batches without a leader as blocked. Empties the batches that were
   * acknowledged and returns those that a broker refused; throws the first failure of a request once all have settled.
   */
  async send(cluster: Cluster, batches: readonly ProducerBatch[], onWritten: OnWritten): Promise<Refusal[]> {
    const identity = this.#identity ?? (await this.#newIdentity(cluster))
    const { leaders, leaderless } = splitByLeader(cluster, batches)
    for (const batch of batches) batch.blocked = leaderless.includes(batch) ? 'no leader' : undefined
    const refusals: Refusal[] = []
    const outcomes = await Promise.allSettled(
      [...leaders].map(async ([nodeId, ofLeader]) => {
        const broker = await cluster.findBroker({ nodeId })
        const { topics } = await produce(broker, {
          ...identity,
          acks: -1,
          timeout: ACKS_TIMEOUT,
          topicData: byTopic(ofLeader).map(([topic, ofTopic]) => ({
            topic,
            partitions: ofTopic.map(({ partition, records }) => ({
              partition,
              firstSequence: this.#sequence(topic, partition),
              messages: records.map(({ message }) => message),
            })),
          })),
        })
        for (const { topicName, partitions } of topics) {
          for (const { partition, errorCode, baseOffset } of partitions) {
            const batch = ofLeader.find((sent) => sent.topic === topicName && sent.partition === partition)
            if (!batch) continue
            const error = errorOfCode(errorCode)
            if (error) refusals.push({ batch, error })
            else this.#acknowledged(batch, Number(baseOffset), onWritten)
          }
        }
      }),
    )
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
    return refusals
  }

  async #newIdentity(cluster: Cluster): Promise<{ producerId: string; producerEpoch: number }> {
    const broker = await cluster.findControllerBroker()
    const { producerId, producerEpoch } = await broker.initProducerId({ transactionTimeout: ACKS_TIMEOUT })
    this.#sequences.clear()
    return (this.#identity = { producerId, producerEpoch })
  }

  /** The sequence number of the next record of a partition. */
  #sequence(topic: string, partition: number): number {
    return this.#sequences.get(`${topic}/${partition}`) ?? 0
  }

  #acknowledged(batch: ProducerBatch, baseOffset: number, onWritten: OnWritten): void {
    const { topic, partition, records } = batch
    batch.records = []
    this.#sequences.set(`${topic}/${partition}`, (this.#sequence(topic, partition) + records.length) % SEQUENCES)
    onWritten(batch, records, baseOffset)
  }
}
