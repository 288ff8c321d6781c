/**
 * One schedule: two of each service, clients, an admin and a branch on one log. First random steps with faults by the
 * seed; then the faults end, all work is completed, and the oracle checks the result.
 */
import type { Ordered } from '../../services/gateway/src/admin/core/admin.ts'
import { Branch, BRANCH } from './branch.ts'
import { Gateway, type Said } from './gateway.ts'
import type { Decided, Left } from './history/decision.ts'
import type { Rest } from './history/right-begins.ts'
import type { ScoringRules } from './history/right-scores.ts'
import type { TrainingRules } from './history/right-training.ts'
import { check } from './oracle.ts'
import { Admin, Client } from './people.ts'
import type { Process } from './process.ts'
import { seeded, type Random } from '../kit/random.ts'
import type { Rule } from './rules.ts'
import { POLICY, Publisher, Scorer, Trainer, type Leaving } from './services.ts'
import { SimLog, type Ends } from './sim-log.ts'

const CHAOS_STEPS = 1400
const MOST_ROUNDS = 2000
/** Maximum number of records of a schedule; a longer one is aborted. */
const MOST_DECISIONS = 3000
/** Rounds after the faults in which partitions still change owners. */
const REGROUPING = 60
/** Of every topic whose work is divided. */
const SHARED = [0, 1]
const IDLE_MS = 150
/** Maximum difference of a clock from the world's, in steps. */
const SKEW = 200

export type Result = {
  seed: number
  problems: string[]
  records: number
  versions: number
  rejected: number
  batches: number
  longest: number
}
/** The response to an admin, and what the gateway had read. */
export type Told = { by: string; ordered: Ordered; seen: Ends; refused: string | null }

/** A trainer reads scores alone from its first start on, from its third, or never; of the two in any combination. */
const leaving = (seed: number, name: string): Leaving => ({
  from: [2, 0, Infinity][Math.floor(seed / (name === 't1' ? 6 : 18)) % 3]!,
  late: seed % 5 === 0,
})

/** What a trainer that reads scores alone knew of episodes: by session the task, and turns that are awaited. */
export type Tells = {
  by: string
  seen: Ends
  left: Left
  episodes: (readonly [session: string, task: string, awaited: readonly string[]])[]
}

export class World {
  readonly random: Random
  readonly off: Rule | null
  readonly log: SimLog
  step = 0
  readonly rules: ScoringRules
  readonly training: TrainingRules & { loss: string; settings: Record<string, number> }
  readonly gateways: Gateway[]
  readonly scorers: Scorer[]
  readonly trainers: Trainer[]
  readonly publishers: Publisher[]
  readonly branch: Branch
  readonly processes: Process<unknown>[]
  readonly clients: Client[]
  readonly admin: Admin
  /** Requests by turn, as a gateway reads them from the log. */
  readonly bodies = new Map<string, Said[]>()
  /** Sessions that a gateway keeps in memory. It finds an evicted one by its label alone. */
  readonly remembered: number
  readonly problems: string[] = []
  /** Judges score every answer equally. */
  readonly pleased: boolean
  readonly decisions: Decided[] = []
  readonly told: Told[] = []
  readonly rests: Rest[] = []
  readonly tells: Tells[] = []
  /** Trainers compute the next batch while the gate measures its parent. */
  readonly ahead: boolean
  /** Some schedules have a newer build, process by process. */
  readonly #upgrading: boolean
  /** Share of appends that the log refuses. */
  #refusals: number

  constructor(seed: number, off: Rule | null) {
    const random = (this.random = seeded(seed))
    this.ahead = seed % 2 === 0
    this.remembered = random.chance(0.3) ? 2 : 100
    this.pleased = random.chance(0.25)
    this.#upgrading = random.chance(0.25)
    this.#refusals = random.pick([0, 0.05, 0.3])
    this.rules = {
      idleMs: IDLE_MS,
      judgesNeedNextState: !random.chance(0.3),
      staleness: random.pick([null, 0, 1]),
      waiting: seed % 3 === 0 ? 2 + (seed % 4) : null,
    }
    const batchSize = 2 + random.below(3)
    this.training = {
      batchSize,
      batchMax: batchSize + random.below(4),
      staleness: random.below(3),
      groupWaitMs: random.pick([20, 100, 400]),
      keyShare: 0.5,
      subjectShare: random.pick([0.5, 1]),
      keyHeardMs: 1000,
      taskEpisodes: 2,
      taskWaitMs: random.pick([50, 300]),
      turnScoreWeight: 0.5,
      loss: 'hybrid',
      settings: { turnScoreWeight: 0.5 },
    }
    this.off = off
    this.log = new SimLog(random)
    const keeps = (): boolean => random.chance(0.7)
    this.gateways = ['g1', 'g2'].map((name) => new Gateway(this, name, keeps()))
    this.scorers = ['s1', 's2'].map((name) => new Scorer(this, name, keeps()))
    this.trainers = ['t1', 't2'].map((name) => new Trainer(this, name, keeps(), leaving(seed, name)))
    this.publishers = ['p1', 'p2'].map((name) => new Publisher(this, name, keeps()))
    this.branch = new Branch(this, 'branch')
    this.processes = [...this.gateways, ...this.scorers, ...this.trainers, ...this.publishers, this.branch]
    for (const process of this.processes) this.#setClock(process)
    this.clients = ['c1', 'c2', 'c3', 'c4'].map((name) => new Client(this, name))
    this.admin = new Admin(this)
  }

  get #workers(): Process<unknown>[] {
    return [...this.scorers, ...this.trainers, ...this.publishers]
  }

  get now(): number {
    return 1000 + this.step
  }

  broken(problem: string): void {
    this.problems.push(problem)
  }

  decided(decision: Decided): void {
    this.decisions.push(decision)
    if (this.decisions.length > MOST_DECISIONS)
      throw new Error(`it does not settle: ${decision.writer} writes another ${decision.event.type}`)
  }

  answered(by: string, ordered: Ordered, seen: Ends, refused: string | null): void {
    this.told.push({ by, ordered, seen, refused })
  }

  refuses(): boolean {
    return this.random.chance(this.#refusals)
  }

  async begin(): Promise<void> {
    for (const process of this.processes) await process.start()
  }

  async chaos(): Promise<void> {
    const people = [...this.clients, this.admin]
    for (; this.step < CHAOS_STEPS; this.step += 1) {
      const dice = this.random.below(100)
      if (dice < 22) this.log.land()
      else if (dice < 32) this.random.pick(people).act()
      else if (dice < 34) await this.#fault()
      else if (dice < 36) this.#regroup()
      else await this.#turnOf(this.random.pick(this.processes))
    }
  }

  async #turnOf(process: Process<unknown>): Promise<void> {
    if (!process.running) return
    const dice = this.random.below(10)
    if (dice < 5) process.read(4)
    else if (dice < 8) {
      if (process.ready) process.act()
    } else if (dice < 9 || process.outbox.length > 0) process.send()
    if (process.alive && this.random.chance(0.02)) await process.takeSnapshot()
  }

  async #fault(): Promise<void> {
    const { random } = this
    const process = random.pick(this.processes)
    if (!process.alive) return this.#start(process)
    const dice = random.below(100)
    if (dice < 10)
      this.log.poison([
        POLICY,
        BRANCH,
        ...this.clients.flatMap(({ received }) => received.map(({ session }) => session)),
      ])
    else if (dice < 20) this.#setClock(process)
    else if (dice < 30) random.pick(this.publishers).promote(BRANCH)
    else if (dice < 60) process.kill()
    else process.stoppedUntil = this.step + 20 + random.below(120)
  }

  async #start(process: Process<unknown>): Promise<void> {
    if (this.#upgrading && this.random.chance(0.4)) process.newer = true
    await process.start()
  }

  #setClock(process: Process<unknown>): void {
    process.skew = this.random.chance(0.5) ? 0 : this.random.below(2 * SKEW + 1) - SKEW
  }

  /** The partitions that a process holds while groups change: none, its own, or some of others too. */
  #regroup(): void {
    const process = this.random.pick(this.#workers)
    if (process.running) process.give(new Set(SHARED.filter(() => this.random.chance(0.6))))
  }

  /** Each partition to exactly one process of its kind. */
  #agree(): void {
    for (const kind of [this.scorers, this.trainers, this.publishers]) {
      const owners = SHARED.map(() => this.random.pick<Process<unknown>>(kind))
      for (const process of kind) process.give(new Set(SHARED.filter((partition) => owners[partition] === process)))
    }
  }

  /** The faults end: all processes run, all appends arrive, all readers read everything. */
  async drain(): Promise<void> {
    this.#refusals = 0
    for (const process of this.processes) {
      process.stoppedUntil = 0
      if (this.#upgrading && !process.newer) {
        if (process.alive) process.kill()
        process.newer = true
      }
      if (!process.alive) await process.start()
    }
    this.#agree()
    let quiet = 0
    for (let round = 0; quiet < 6; round += 1) {
      if (round > MOST_ROUNDS) return this.broken('it does not settle')
      this.step += 1
      if (round < REGROUPING && round % 10 === 9) this.#agree()
      let busy = false
      for (const client of this.clients) busy = client.act() || busy
      busy = this.admin.act() || busy
      for (const process of this.processes) {
        if (process.ready) busy = process.act() || busy
        while (process.send()) busy = true
      }
      while (this.log.inFlight > 0) {
        this.log.land()
        busy = true
      }
      for (const process of this.processes) while (process.read(50)) busy = true
      // What waits for partitions to be read goes on.
      await Promise.resolve()
      if (busy || !this.clients.every((client) => client.done) || !this.admin.idle) quiet = 0
      else {
        quiet += 1
        this.step += IDLE_MS + 1
      }
    }
  }
}

/** The result of a schedule. An exception of a process is a problem. */
export const simulate = async (seed: number, off: Rule | null = null): Promise<Result> => {
  const world = new World(seed, off)
  let [versions, rejected, batches] = [0, 0, 0]
  try {
    await world.begin()
    await world.chaos()
    await world.drain()
    const found = check(world)
    world.problems.push(...found.problems)
    ;({ versions, rejected, batches } = found)
  } catch (error) {
    world.broken(
      error instanceof Error ? (error.stack ?? error.message).split('\n').slice(0, 3).join(' ') : String(error),
    )
  }
  const records = [...world.log.partitions.values()].reduce((sum, list) => sum + list.length, 0)
  const longest = Math.max(...world.clients.map(({ received }) => received.length))
  return { seed, problems: world.problems, records, versions, rejected, batches, longest }
}
