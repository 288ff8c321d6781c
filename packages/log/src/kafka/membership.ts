/**
 * The assignment of a topic's partitions to processes by Kafka's classic group protocol (JoinGroup, SyncGroup,
 * Heartbeat). Uses its own connection, since JoinGroup blocks other requests. The group neither fetches nor commits, so
 * a member that is late loses nothing.
 */
import { createRequire } from 'node:module'
import type * as kafkajs from 'kafkajs'
import type { KnownOffsets, PartitionAssignment } from '../port.ts'
import { assign, type Member } from './assign.ts'
import { kafkaError, messageOf, type Broker, type Cluster, type KafkaConnection } from './client.ts'
import { LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import { sleep, type Backoff } from '../backoff.ts'
import { kafkaBackoff } from './retry.ts'

const {
  AssignerProtocol: { MemberMetadata, MemberAssignment },
} = createRequire(import.meta.url)('kafkajs') as typeof kafkajs

type MembershipParts = {
  connection: KafkaConnection
  groupId: string
  /** Kafka's name of the topic, with its prefix. */
  topic: string
  partitions: number
  /** Session timeout, ms: without a heartbeat for this long the partitions are assigned to other members. */
  session: number
  onChange(): void
  /** The next offset of each partition that this process has to read; absent: it does not matter who has a partition. */
  known?: KnownOffsets
  logLine(line: string): void
}

const PROTOCOL = 'instar.even.v1'
/** Heartbeats per session timeout. */
const HEARTBEATS = 4
/**
 * Number of session timeouts after which a process owns all partitions if the topic is reachable and the group is not.
 */
const OWN_ALL_AFTER = 6

export class Membership implements PartitionAssignment {
  readonly #parts: MembershipParts
  readonly #leaving = new AbortController()
  readonly #stopped: Promise<void>
  readonly #all: ReadonlySet<number>
  #owned: ReadonlySet<number> = new Set()
  /** The last assignment and its generation, sent with the next JoinGroup request. */
  #held: Omit<Member, 'id' | 'known'> = { generation: 0, held: [] }
  #memberId = ''
  /** The current generation; undefined if the process must join. */
  #generation: number | undefined
  #unreachable = false
  /** Since when the topic is reachable and the group is not, by `performance.now()`. */
  #unreachableSince: number | undefined
  /** When the next heartbeat is due, by `performance.now()`; Infinity while joining or without a coordinator. */
  #due = Infinity
  /** `owns` returned false for an assigned partition because this process was paused. */
  #paused = false

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#all = new Set(Array.from({ length: parts.partitions }, (_, partition) => partition))
    this.#stopped = this.#run()
  }

  /**
   * Whether the partition is assigned to this process. False after the process was paused for longer than a session,
   * until the group responds, since another member may own the partition.
   */
  owns(partition: number): boolean {
    if (!this.#owned.has(partition)) return false
    const { session } = this.#parts
    const paused = performance.now() > this.#due + session - session / HEARTBEATS
    this.#paused ||= paused
    return !paused
  }

  /** Leaves the group. Waits at most a session timeout, after which the group removes the member anyway. */
  async leave(): Promise<void> {
    this.#owned = new Set()
    this.#leaving.abort()
    const stopped = new AbortController()
    await Promise.race([this.#stopped.finally(() => stopped.abort()), sleep(this.#parts.session, stopped.signal)])
    this.#parts.connection.close()
  }

  async #run(): Promise<void> {
    const { connection } = this.#parts
    const { signal } = this.#leaving
    const backoff = kafkaBackoff()
    while (!signal.aborted) {
      try {
        await connection.use((cluster) => this.#heartbeatLoop(cluster, backoff))
      } catch (cause) {
        if (signal.aborted) break
        this.#handleError(kafkaError(cause))
        await this.#keepAssignment(cause)
        await backoff.wait(signal)
      }
    }
    await connection.use((cluster) => this.#leaveGroup(cluster)).catch(() => undefined)
  }

  /** Joins and sends heartbeats until `leave`. Throws any error other than a rebalance. */
  async #heartbeatLoop(cluster: Cluster, backoff: Backoff): Promise<void> {
    const { groupId, session } = this.#parts
    const { signal } = this.#leaving
    const coordinator = await cluster.findGroupCoordinator({ groupId })
    while (!signal.aborted) {
      try {
        if (this.#generation === undefined) await this.#join(coordinator)
        else await coordinator.heartbeat({ groupId, groupGenerationId: this.#generation, memberId: this.#memberId })
      } catch (cause) {
        if (kafkaError(cause) !== 'REBALANCE_IN_PROGRESS') throw cause
        this.#generation = undefined
        continue
      }
      backoff.reset()
      this.#due = performance.now() + session / HEARTBEATS
      this.#confirmed()
      await sleep(session / HEARTBEATS, signal)
    }
  }

  async #join(coordinator: Broker): Promise<void> {
    this.#due = Infinity
    const { groupId, session, topic, known } = this.#parts
    const metadata = MemberMetadata.encode({
      version: 1,
      topics: [topic],
      userData: Buffer.from(JSON.stringify({ ...this.#held, known: known?.() })),
    })
    const { generationId, leaderId, memberId, members } = await coordinator.joinGroup({
      groupId,
      sessionTimeout: session,
      rebalanceTimeout: session,
      memberId: this.#memberId,
      groupProtocols: [{ name: PROTOCOL, metadata }],
    })
    this.#memberId = memberId
    if (this.#leaving.signal.aborted) return
    const groupAssignment = leaderId === memberId ? this.#groupAssignment(members) : []
    const { memberAssignment } = await coordinator.syncGroup({ groupId, generationId, memberId, groupAssignment })
    this.#generation = generationId
    this.#held = { generation: generationId, held: MemberAssignment.decode(memberAssignment)?.assignment[topic] ?? [] }
  }

  #groupAssignment(
    members: readonly { memberId: string; memberMetadata: Buffer }[],
  ): { memberId: string; memberAssignment: Buffer }[] {
    const { topic, partitions } = this.#parts
    const assignments = assign(
      members.map(({ memberId, memberMetadata }) => ({ id: memberId, ...claimOf(memberMetadata) })),
      partitions,
    )
    return [...assignments].map(([memberId, partitions]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({
        version: 1,
        assignment: { [topic]: partitions },
        userData: Buffer.alloc(0),
      }),
    }))
  }

  async #leaveGroup(cluster: Cluster): Promise<void> {
    if (this.#memberId === '') return
    const { groupId } = this.#parts
    const coordinator = await cluster.findGroupCoordinator({ groupId })
    await coordinator.leaveGroup({ groupId, memberId: this.#memberId })
  }

  #confirmed(): void {
    if (this.#unreachable) this.#parts.logLine(`group ${this.#parts.groupId} is reachable again`)
    this.#unreachable = false
    this.#unreachableSince = undefined
    this.#setOwned(new Set(this.#held.held))
  }

  /** After an error: a member that the group removed will join as a new one; otherwise it stays a member. */
  #handleError(error: string | undefined): void {
    this.#due = Infinity
    if (error === undefined || !REMOVED.has(error)) return
    this.#memberId = ''
    this.#generation = undefined
    this.#setOwned(new Set())
  }

  /**
   * Keeps the last assignment. If the topic is reachable and the group is not for `OWN_ALL_AFTER` session timeouts,
   * other members may have failed: the process then owns all partitions, since work may be done twice but must not be
   * omitted.
   */
  async #keepAssignment(cause: unknown): Promise<void> {
    const { connection, groupId, topic, session, logLine } = this.#parts
    if (!this.#unreachable) logLine(`group ${groupId} is unreachable (${messageOf(cause)}); retrying`)
    this.#unreachable = true
    const partitions: TopicPartition[] = [...this.#all].map((partition) => ({ topic, partition }))
    const isTopicReachable = await connection
      .use((cluster) => offsetsAt(cluster, partitions, LATEST))
      .then(
        () => true,
        () => false,
      )
    if (!isTopicReachable) this.#unreachableSince = undefined
    else if (
      performance.now() - (this.#unreachableSince ??= performance.now()) >= OWN_ALL_AFTER * session &&
      this.#owned.size < this.#all.size
    ) {
      logLine(`group ${groupId} is unreachable: owning all partitions`)
      this.#setOwned(this.#all)
    }
  }

  #setOwned(partitions: ReadonlySet<number>): void {
    const same = partitions.size === this.#owned.size && partitions.isSubsetOf(this.#owned)
    if (this.#leaving.signal.aborted || (same && !this.#paused)) return
    this.#owned = partitions
    this.#paused = false
    const { onChange, logLine, groupId, topic } = this.#parts
    if (!same)
      logLine(
        `group ${groupId}: ${partitions.size === 0 ? 'no partition' : `partitions ${[...partitions].join(', ')}`} of ${topic}`,
      )
    onChange()
  }
}

const REMOVED = new Set(['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'MEMBER_ID_REQUIRED'])

const isOffsets = (value: unknown): value is Record<number, number> =>
  typeof value === 'object' && value !== null && Object.values(value).every((one) => Number.isSafeInteger(one))

/** The assignment in a member's metadata; none if it cannot be decoded. */
const claimOf = (metadata: Buffer): Omit<Member, 'id'> => {
  try {
    const claim = JSON.parse(MemberMetadata.decode(metadata)!.userData.toString()) as Partial<Member> | null
    if (Number.isInteger(claim?.generation) && Array.isArray(claim?.held))
      return {
        generation: claim!.generation!,
        held: claim!.held,
        ...(isOffsets(claim!.known) ? { known: claim!.known } : {}),
      }
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause
  }
  return { generation: 0, held: [] }
}
