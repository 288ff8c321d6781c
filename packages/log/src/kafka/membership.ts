/**
 * One process's share of a topic, by Kafka's group protocol on a connection of its own: joining holds up
 * whatever else is asked on it. Nothing is read or committed here, so nothing is lost when a member is late.
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
  /** Milliseconds without a sign of life after which the others take this process's partitions. */
  session: number
  onChange(): void
  say(line: string): void
}

const PROTOCOL = 'instar.even.v1'
/** Signs of life in a session. */
const BEATS = 4
/** Sessions without the group, while the topic itself answers, after which a process works on everything. */
const ALONE_AFTER = 6

export class Membership implements PartitionAssignment {
  readonly #parts: MembershipParts
  readonly #leaving = new AbortController()
  readonly #gone: Promise<void>
  readonly #all: ReadonlySet<number>
  #owned: ReadonlySet<number> = new Set()
  /** What the group gave last, and in which generation: what is claimed when joining again. */
  #held: Omit<Member, 'id'> = { generation: 0, held: [] }
  #memberId = ''
  /** Undefined: not a member, or to join anew. */
  #generation: number | undefined
  #failing = false
  /** Since when the topic answers and the group does not, ms of the process's clock. */
  #aloneSince: number | undefined
  /** When the next sign of life is due; never while the group is being joined or not reached. */
  #due = Infinity
  /** Something was said not to be ours that may be. */
  #doubted = false

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#all = new Set(Array.from({ length: parts.partitions }, (_, partition) => partition))
    this.#gone = this.#run()
  }

  /** Whoever slept through a session, on waking up, begins with nothing before it has asked what became of its share. */
  owns(partition: number): boolean {
    if (!this.#owned.has(partition)) return false
    const { session } = this.#parts
    const slept = performance.now() > this.#due + session - session / BEATS
    this.#doubted ||= slept
    return !slept
  }

  /** Nobody waits longer for the farewell than the others would have to without it. */
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

  /** Until it leaves. Throws what is not an orderly change of the group. */
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

  /** A member that was given up (it was silent for too long, others have its share) joins as a new one. Any other fault leaves it a member. */
  #forget(error: string | undefined): void {
    this.#due = Infinity
    if (error === undefined || !GIVEN_UP.has(error)) return
    this.#memberId = ''
    this.#generation = undefined
    this.#take(new Set())
  }

  /**
   * Work goes on with the last share. If the topic answers for some time and the group does not, others may
   * have died unseen: then everything is mine, since double work is harmless and undone work is not.
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

/** What cannot be read claims nothing. */
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
