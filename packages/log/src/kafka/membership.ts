/**
 * A process's partitions of a topic, by Kafka's group protocol on a connection of its own, because JoinGroup blocks
 * its connection. The group reads and commits nothing, so a late member loses nothing.
 */
import { createRequire } from 'node:module'
import type * as kafkajs from 'kafkajs'
import type { PartitionAssignment } from '../port.ts'
import { assign, type Member } from './assign.ts'
import { kafkaError, messageOf, type Broker, type Cluster, type KafkaConnection } from './client.ts'
import { LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import { sleep, type Backoff } from '../backoff.ts'
import { kafkaBackoff } from './wait.ts'

const {
  AssignerProtocol: { MemberMetadata, MemberAssignment },
} = createRequire(import.meta.url)('kafkajs') as typeof kafkajs

type MembershipParts = {
  connection: KafkaConnection
  groupId: string
  /** Kafka's own name of the topic. */
  topic: string
  partitions: number
  /** Session timeout, ms: without a heartbeat for this long the other members take over the partitions. */
  session: number
  onChange(): void
  say(line: string): void
}

const PROTOCOL = 'instar.even.v1'
/** Heartbeats per session timeout. */
const BEATS = 4
/**
 * Session timeouts without an answer of the group, while the topic itself answers, after which the process works on
 * every partition.
 */
const ALONE_AFTER = 6

export class Membership implements PartitionAssignment {
  readonly #parts: MembershipParts
  readonly #leaving = new AbortController()
  readonly #gone: Promise<void>
  readonly #all: ReadonlySet<number>
  #owned: ReadonlySet<number> = new Set()
  /** The last assignment and its generation, sent as the claim of the next join. */
  #held: Omit<Member, 'id'> = { generation: 0, held: [] }
  #memberId = ''
  /** Undefined: not a member, or to join anew. */
  #generation: number | undefined
  #failing = false
  /** Since when the topic answers and the group does not, ms of the process's clock. */
  #aloneSince: number | undefined
  /** When the next heartbeat is due; Infinity while joining or without a coordinator. */
  #due = Infinity
  /** `owns` returned false for an assigned partition after a pause of this process. */
  #doubted = false

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#all = new Set(Array.from({ length: parts.partitions }, (_, partition) => partition))
    this.#gone = this.#run()
  }

  /**
   * False after a pause of this process longer than a session, until the group has answered: others may own the
   * partition by then.
   */
  owns(partition: number): boolean {
    if (!this.#owned.has(partition)) return false
    const { session } = this.#parts
    const slept = performance.now() > this.#due + session - session / BEATS
    this.#doubted ||= slept
    return !slept
  }

  /** Leaves the group. Waits at most a session timeout, after which the other members take over anyway. */
  async leave(): Promise<void> {
    this.#owned = new Set()
    this.#leaving.abort()
    const gone = new AbortController()
    await Promise.race([this.#gone.finally(() => gone.abort()), sleep(this.#parts.session, gone.signal)])
    this.#parts.connection.close()
  }

  async #run(): Promise<void> {
    const { connection } = this.#parts
    const { signal } = this.#leaving
    const backoff = kafkaBackoff()
    while (!signal.aborted) {
      try {
        await connection.use((cluster) => this.#belong(cluster, backoff))
      } catch (cause) {
        if (signal.aborted) break
        this.#forget(kafkaError(cause))
        await this.#miss(cause)
        await backoff.wait(signal)
      }
    }
    await connection.use((cluster) => this.#quit(cluster)).catch(() => undefined)
  }

  /** Heartbeats until `leave`. Throws any error other than a rebalance. */
  async #belong(cluster: Cluster, backoff: Backoff): Promise<void> {
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
      this.#due = performance.now() + session / BEATS
      this.#reached()
      await sleep(session / BEATS, signal)
    }
  }

  async #join(coordinator: Broker): Promise<void> {
    this.#due = Infinity
    const { groupId, session, topic } = this.#parts
    const metadata = MemberMetadata.encode({
      version: 1,
      topics: [topic],
      userData: Buffer.from(JSON.stringify(this.#held)),
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
    const groupAssignment = leaderId === memberId ? this.#assigned(members) : []
    const { memberAssignment } = await coordinator.syncGroup({ groupId, generationId, memberId, groupAssignment })
    this.#generation = generationId
    this.#held = { generation: generationId, held: MemberAssignment.decode(memberAssignment)?.assignment[topic] ?? [] }
  }

  #assigned(
    members: readonly { memberId: string; memberMetadata: Buffer }[],
  ): { memberId: string; memberAssignment: Buffer }[] {
    const { topic, partitions } = this.#parts
    const shares = assign(
      members.map(({ memberId, memberMetadata }) => ({ id: memberId, ...claimOf(memberMetadata) })),
      partitions,
    )
    return [...shares].map(([memberId, share]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({
        version: 1,
        assignment: { [topic]: share },
        userData: Buffer.alloc(0),
      }),
    }))
  }

  async #quit(cluster: Cluster): Promise<void> {
    if (this.#memberId === '') return
    const { groupId } = this.#parts
    const coordinator = await cluster.findGroupCoordinator({ groupId })
    await coordinator.leaveGroup({ groupId, memberId: this.#memberId })
  }

  #reached(): void {
    if (this.#failing) this.#parts.say(`group ${this.#parts.groupId} is reached again`)
    this.#failing = false
    this.#aloneSince = undefined
    this.#take(new Set(this.#held.held))
  }

  /** A member that the group has removed joins as a new one. After any other error it stays a member. */
  #forget(error: string | undefined): void {
    this.#due = Infinity
    if (error === undefined || !GIVEN_UP.has(error)) return
    this.#memberId = ''
    this.#generation = undefined
    this.#take(new Set())
  }

  /**
   * Keeps the last assignment. When the topic has answered for some time and the group has not, other members may
   * have failed unseen: the process then owns every partition, since duplicate work is harmless and missing work is
   * not.
   */
  async #miss(cause: unknown): Promise<void> {
    const { connection, groupId, topic, session, say } = this.#parts
    if (!this.#failing) say(`group ${groupId} is not reached (${messageOf(cause)}); trying again`)
    this.#failing = true
    const places: TopicPartition[] = [...this.#all].map((partition) => ({ topic, partition }))
    const answers = await connection
      .use((cluster) => offsetsAt(cluster, places, LATEST))
      .then(
        () => true,
        () => false,
      )
    if (!answers) this.#aloneSince = undefined
    else if (
      performance.now() - (this.#aloneSince ??= performance.now()) >= ALONE_AFTER * session &&
      this.#owned.size < this.#all.size
    ) {
      say(`group ${groupId} is not reached: working on every partition`)
      this.#take(this.#all)
    }
  }

  #take(share: ReadonlySet<number>): void {
    const same = share.size === this.#owned.size && share.isSubsetOf(this.#owned)
    if (this.#leaving.signal.aborted || (same && !this.#doubted)) return
    this.#owned = share
    this.#doubted = false
    const { onChange, say, groupId, topic } = this.#parts
    if (!same)
      say(`group ${groupId}: ${share.size === 0 ? 'no partition' : `partitions ${[...share].join(', ')}`} of ${topic}`)
    onChange()
  }
}

const GIVEN_UP = new Set(['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'MEMBER_ID_REQUIRED'])

/** Metadata that cannot be decoded claims nothing. */
const claimOf = (metadata: Buffer): Omit<Member, 'id'> => {
  try {
    const claim = JSON.parse(MemberMetadata.decode(metadata)!.userData.toString()) as Partial<Member> | null
    if (Number.isInteger(claim?.generation) && Array.isArray(claim?.held))
      return { generation: claim!.generation!, held: claim!.held }
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause
  }
  return { generation: 0, held: [] }
}
