/**
 * One schedule: two of each service, clients, an admin and a branch on one log. First chaos, step by step as
 * the seed says; then the faults end, everything settles, and the oracle looks at what is left.
 */
import type { Rule } from './rules.ts'
import { Gateway, type Said } from './gateway.ts'
import { check } from './oracle.ts'
import { Admin, Client } from './people.ts'
import type { Process } from './process.ts'
import { seeded, type Random } from './random.ts'
import { Branch, BRANCH, IDLE_MS, Publisher, Scorer, Trainer } from './services.ts'
import { SimLog } from './sim-log.ts'

const CHAOS_STEPS = 900
const MOST_ROUNDS = 4000
/** So many rounds after the faults partitions still go from one to another. */
const REGROUPING = 60
/** Of every topic whose work is divided. */
const SHARED = [0, 1]

export type Result = { seed: number; problems: string[]; records: number; versions: number; rejected: number }

export class World {
  readonly random: Random
  readonly off: Rule | null
  readonly log: SimLog
  step = 0
  readonly gateways: Gateway[]
  readonly scorers: Scorer[]
  readonly trainers: Trainer[]
  readonly publishers: Publisher[]
  readonly branch: Branch
  readonly processes: Process<unknown>[]
  readonly clients: Client[]
  readonly admin: Admin
  /** Requests by turn, as a gateway reads them back from the log. */
  readonly bodies = new Map<string, Said[]>()
  /** Sessions that a gateway keeps in memory. It finds a forgotten one by its label alone. */
  readonly remembered: number
  readonly problems: string[] = []

  constructor(seed: number, off: Rule | null) {
    this.random = seeded(seed)
    this.remembered = this.random.chance(0.3) ? 2 : 100
    this.off = off
    this.log = new SimLog(this.random)
    this.gateways = ['g1', 'g2'].map((name) => new Gateway(this, name))
    this.scorers = ['s1', 's2'].map((name) => new Scorer(this, name))
    this.trainers = ['t1', 't2'].map((name) => new Trainer(this, name))
    this.publishers = ['p1', 'p2'].map((name) => new Publisher(this, name))
    this.branch = new Branch(this, 'branch')
    this.processes = [...this.gateways, ...this.scorers, ...this.trainers, ...this.publishers, this.branch]
    this.clients = ['c1', 'c2', 'c3', 'c4'].map((name) => new Client(this, name))
    this.admin = new Admin(this)
  }

  get #workers(): Process<unknown>[] { return [...this.scorers, ...this.trainers, ...this.publishers] }

  get now(): number { return 1000 + this.step }

  broken(problem: string): void {
    this.problems.push(problem)
  }

  chaos(): void {
    const people = [...this.clients, this.admin]
    for (; this.step < CHAOS_STEPS; this.step += 1) {
      const dice = this.random.below(100)
      if (dice < 22) this.log.land()
      else if (dice < 32) this.random.pick(people).act()
      else if (dice < 34) this.#fault()
      else if (dice < 36) this.#regroup()
      else this.#turnOf(this.random.pick(this.processes))
    }
  }

  #turnOf(process: Process<unknown>): void {
    if (!process.running) return
    const dice = this.random.below(10)
    if (dice < 5) process.read(4)
    else if (dice < 8) {
      if (process.ready) process.act()
    } else if (dice < 9 || process.outbox.length > 0) process.send()
    if (this.random.chance(0.02)) process.takeSnapshot()
  }

  #fault(): void {
    const process = this.random.pick(this.processes)
    if (!process.alive) process.start()
    else if (this.random.chance(0.4)) process.kill()
    else if (this.random.chance(0.1)) this.random.pick(this.publishers).promote(BRANCH)
    else process.stoppedUntil = this.step + 20 + this.random.below(120)
  }

  /** What one holds for its own while groups change: nobody's work, somebody else's too, or nothing. */
  #regroup(): void {
    const process = this.random.pick(this.#workers)
    if (process.running) process.give(new Set(SHARED.filter(() => this.random.chance(0.6))))
  }

  /** Each partition to exactly one of its kind. */
  #agree(): void {
    for (const kind of [this.scorers, this.trainers, this.publishers]) {
      const owners = SHARED.map(() => this.random.pick<Process<unknown>>(kind))
      for (const process of kind) process.give(new Set(SHARED.filter((partition) => owners[partition] === process)))
    }
  }

  /** The faults are over: everybody runs, everything lands, everyone reads all. */
  drain(): void {
    for (const process of this.processes) {
      process.stoppedUntil = 0
      if (!process.alive) process.start()
    }
    this.#agree()
    let quiet = 0
    for (let round = 0; quiet < 3; round += 1) {
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
      if (busy || !this.clients.every((client) => client.done) || !this.admin.idle) quiet = 0
      else {
        quiet += 1
        this.step += IDLE_MS + 1
      }
    }
  }
}

/** What a schedule came to. An exception of a process is a problem like any other. */
export const simulate = (seed: number, off: Rule | null = null): Result => {
  const world = new World(seed, off)
  let versions = 0
  let rejected = 0
  try {
    world.chaos()
    world.drain()
    const found = check(world)
    world.problems.push(...found.problems)
    ;({ versions, rejected } = found)
  } catch (error) {
    world.broken(error instanceof Error ? (error.stack ?? error.message).split('\n').slice(0, 3).join(' ') : String(error))
  }
  const records = [...world.log.partitions.values()].reduce((sum, list) => sum + list.length, 0)
  return { seed, problems: world.problems, records, versions, rejected }
}
