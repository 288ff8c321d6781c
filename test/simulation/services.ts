/** Scorer, trainer and publisher: their real cores, with random verdicts, results and figures. */
import {
  batchOfUpdate,
  derivedId,
  updateLine,
  weightLine,
  type BatchSealed,
  type Event,
  type Logged,
  type Topic,
} from '@instar/events'
import {
  decide as publisherDecide,
  decidePromotion,
  lineStarted,
  type Measured,
} from '../../services/publisher/src/core/decide.ts'
import { THRESHOLDS, type Figures } from '../../services/publisher/src/core/gate.ts'
import {
  evolve as publisherEvolve,
  initialState as publisherState,
  type PublisherState,
} from '../../services/publisher/src/core/state.ts'
import { ownPartitions, type OwnPartitions } from '../../packages/process/src/own-partitions.ts'
import { stateOfSnapshot as storedPublisher } from '../../services/publisher/src/shell/snapshot.ts'
import {
  closeIdle,
  decide as scorerDecide,
  hasMore,
  isStale,
  judged,
  lookAgain,
  passOver,
  stillOurs,
  type JudgeRequest,
} from '../../services/scorer/src/core/decide.ts'
import type { Judged } from '../../services/scorer/src/core/judgement.ts'
import { isWanted } from '../../services/scorer/src/core/waiting.ts'
import {
  evolve as scorerEvolve,
  forgetWork,
  initialState as scorerState,
  type ScorerState,
} from '../../services/scorer/src/core/state.ts'
import { stateOfSnapshot as storedScorer } from '../../services/scorer/src/shell/snapshot.ts'
import { isSameBatch, type Ahead } from '../../services/trainer/src/core/ahead.ts'
import { computed, decide as trainerDecide, failed } from '../../services/trainer/src/core/decide.ts'
import {
  evolve as trainerEvolve,
  initialState as trainerState,
  type TrainerState,
} from '../../services/trainer/src/core/state.ts'
import { mayReadScoresAlone } from '../../services/trainer/src/core/told.ts'
import { stateOfSnapshot as storedTrainer } from '../../services/trainer/src/shell/snapshot.ts'
import type { Left, Note } from './history/decision.ts'
import { Process, type Keeping } from './process.ts'
import type { Folds } from './rules.ts'
import { slot, type Ends } from './sim-log.ts'
import type { World } from './world.ts'

export const POLICY = 'policy'
/** The process that holds this partition works on its chains. */
const OWN = 0
const ALL = ['turns', 'scores', 'updates', 'weights'] as const

export class Scorer extends Process<ScorerState> {
  #asked: JudgeRequest[] = []
  #caughtUp = false
  /** Where this life began to read. */
  #begun: Ends = new Map()
  /** Partitions of `turns` that it reads, and what it has to read until it works on them. */
  #taken = new Map<number, { until: Ends; resolve: () => void }>()
  #own: OwnPartitions | null = null
  constructor(world: World, name: string, keeps: boolean) {
    super(world, name, ALL, keeps)
  }
  override mine = (partition: number): boolean => this.share.has(partition) && this.#own?.has(partition) === true

  override get whole(): readonly Topic[] {
    return ['scores', 'updates', 'weights']
  }

  override endsFor(partition: number): Ends {
    const of = slot('turns', partition)
    return new Map([...this.world.log.ends(this.topics)].filter(([name]) => !name.startsWith('turns/') || name === of))
  }

  /** The sessions whose turns it reads. */
  reads(session: string): boolean {
    return this.#taken.has(this.world.log.partitionOf('turns', session))
  }

  override unread(): string[] {
    return super
      .unread()
      .filter((name) => !name.startsWith('turns/') || this.#taken.has(Number(name.slice('turns/'.length))))
  }

  override read(most: number): boolean {
    const read = super.read(most)
    this.#settle()
    return read
  }

  #settle(): void {
    for (const { until, resolve } of this.#taken.values()) if (this.hasRead(until)) resolve()
  }

  #divide(): OwnPartitions {
    return ownPartitions({
      topic: 'turns',
      count: 2,
      follower: {
        take: (partition, from) =>
          new Promise((resolve) => {
            this.positions.set(slot('turns', partition), from())
            this.#taken.set(partition, { until: this.endsFor(partition), resolve })
            this.#settle()
          }),
        release: (partition) => {
          this.#taken.get(partition)?.resolve()
          this.#taken.delete(partition)
        },
      },
      positions: () => ({
        turns: Object.fromEntries([0, 1].map((one) => [one, this.positions.get(slot('turns', one)) ?? 0])),
      }),
      onCaughtUp: () => this.#lookAgain(),
      onError: (error) => this.world.broken(`${this.name}: ${String(error)}`),
    })
  }

  #lookAgain(): void {
    if (this.world.off !== 'handover' && this.#caughtUp) lookAgain(this.state)
  }
  fresh(kept: Keeping): ScorerState {
    return kept ? storedScorer(kept(this.name)) : scorerState()
  }
  folds(): Folds {
    return { turns: this.state.turns, scores: (policy) => this.state.scores.get(policy), weights: this.state.weights }
  }

  override restored(): void {
    this.#begun = new Map(this.positions)
  }

  evolve(logged: Logged<Event>): void {
    scorerEvolve(this.state, logged)
    if (!this.#caughtUp) this.state.touched.clear()
  }

  forget(): void {
    this.#asked = []
    this.#caughtUp = false
    this.#own?.stop()
    this.#own = null
    this.#taken.clear()
  }

  override shared(): void {
    this.#own ??= this.#divide()
    this.#own.update({ owns: (partition) => this.share.has(partition), leave: () => Promise.resolve() })
    this.#lookAgain()
  }
  waits(): string | null {
    const { work, closing, needed, beginning, ending } = this.state
    // Closings of sessions that it no longer reads are not read back.
    const closings = [...closing.keys()].filter((session) => this.reads(session)).length
    const episodes = beginning.sessions.size + ending.sessions.size
    return this.#asked.length + work.size + closings + needed.size + episodes === 0
      ? null
      : `${this.#asked.length} judges, ${work.size} turns, ${closings} closings, ${needed.size} turns without a score, ${beginning.sessions.size} beginnings, ${ending.sessions.size} ends`
  }

  act(): boolean {
    const { now } = this
    const { random, rules } = this.world
    if (!this.#caughtUp) {
      this.#caughtUp = true
      forgetWork(this.state)
    }
    if (this.#asked.length > 0 && random.chance(0.5)) {
      const [request] = this.#asked.splice(random.below(this.#asked.length), 1)
      this.#judge(request!)
      return true
    }
    const outputs = [
      ...scorerDecide(this.state, rules, now, this.mine, 3),
      ...closeIdle(this.state, rules, now, this.mine).outputs,
    ]
    for (const output of outputs) {
      if (output.do === 'judge') this.#asked.push(output)
      else this.append(output.event)
    }
    if (outputs.length === 0 && !hasMore(this.state)) this.#rest()
    return outputs.length > 0 || this.#asked.length > 0 || hasMore(this.state)
  }

  #rest(): void {
    const { name: writer, life, positions, world } = this
    const partitions = new Set([0, 1].filter(this.mine))
    world.rests.push({ writer, life, seen: new Map(positions), partitions, decided: world.decisions.length })
  }

  #judge(request: JudgeRequest): void {
    if (!stillOurs(this.state, request, this.mine)) return
    const { random, rules } = this.world
    const why = request.feedback
      ? null
      : isStale(this.state, request, rules)
        ? 'stale'
        : !this.#wants(request)
          ? 'surplus'
          : random.chance(0.02)
            ? 'overloaded'
            : null
    const opinion = why === null ? this.#opinion(request) : { ...NOBODY, reason: why }
    const output =
      why === null ? judged(this.state, request, opinion, this.now) : passOver(this.state, request, why, this.now)
    if (output?.do === 'append') this.append(output.event, { opinion, begun: this.#begun })
  }

  #wants({ turn: id }: JudgeRequest): boolean {
    const turn = this.state.turns.turns.get(id)
    return turn === undefined || isWanted(this.state, turn, this.world.rules)
  }

  #opinion(request: JudgeRequest): Judged {
    const { random } = this.world
    const value = request.feedback?.value ?? (this.world.pleased ? 1 : random.pick([1, -1, null]))
    const judge = request.feedback ? 'feedback' : this.name
    const hint = value !== null && value < 0 && random.chance(0.5) ? `h${random.hex(2)}` : null
    return {
      verdicts: [{ judge, value, note: '' }],
      reward: value,
      judge: value === null ? null : judge,
      hint,
      hintJudge: hint && judge,
      reason: value === null ? 'abstained' : null,
      // As the shell reads them, which refer to no earlier turns here.
      earlier: [],
    }
  }
}

const NOBODY: Judged = { verdicts: [], reward: null, judge: null, hint: null, hintJudge: null, reason: null }

export const trained = (
  sealed: BatchSealed,
  rewards: readonly number[],
  build: string,
): { adapter: string; state: string } => {
  const inputs = JSON.stringify([
    sealed.parent.adapter,
    sealed.parent.state,
    sealed.items.map((item, i) => [item.turn, rewards[i], item.baseline]),
    sealed.seed,
  ])
  return { adapter: derivedId('adapter', inputs, build), state: derivedId('state', inputs, build) }
}

const rewardsOf = ({ items }: BatchSealed): number[] => items.map(({ reward }) => reward)

/** How often a trainer tries to leave `turns` after a start, before its first decision. */
const LEAVE_TRIES = 3
const LATE_STEPS = 300

/**
 * When a trainer reads scores alone: from its start `from` on, counted from 0; Infinity: never. `late`: before it leaves `turns`
 * it reads other topics alone for LATE_STEPS, so that scores refer to turns that it has not read.
 */
export type Leaving = { from: number; late: boolean }

export class Trainer extends Process<TrainerState> {
  readonly #leaves: Leaving
  #starts = 0
  #tries = 0
  /** The step at which it might have left `turns`. */
  #readyAt: number | null = null
  /** What it had read when it left `turns` last. */
  #left: Ends = new Map()
  #toldAt = ''
  #unread: string | null = null
  #computing: { batch: string; sealed: BatchSealed } | null = null
  /** Computed while the gate measures its parent. */
  #ahead: (Ahead & { chosen: NonNullable<Note['chosen']>; result: ReturnType<typeof trained> }) | null = null
  /** The adapter that this process computed, by its batch. */
  #own = new Map<string, { adapter: string; state: string }>()
  constructor(world: World, name: string, keeps: boolean, leaves: Leaving) {
    super(world, name, ALL, keeps)
    this.#leaves = leaves
  }

  override get left(): Left | null {
    return this.state.reads === 'scores' ? { policy: POLICY, ends: this.#left } : null
  }

  override get whole(): readonly Topic[] {
    return this.topics.filter((topic) => topic !== 'turns' || this.state.reads === 'turns')
  }

  override unread(): string[] {
    const unread = super.unread()
    const others = unread.filter((name) => !name.startsWith('turns/'))
    const isBehind = this.#leaves.late && this.#tries > 0 && this.ready
    return this.state.reads === 'turns' && !isBehind ? unread : others
  }

  override async open(): Promise<Map<string, number>> {
    const positions = await super.open()
    if (this.snapshots.some((one) => one.left.list().includes('turns'))) this.state.reads = 'scores'
    this.#tries = this.#starts >= this.#leaves.from && this.state.reads === 'turns' ? LEAVE_TRIES : 0
    this.#starts += 1
    this.#readyAt = null
    return positions
  }

  /** What it knows of episodes, whenever it has read more scores. */
  #tell(): void {
    const { left, positions, name: by, state, world } = this
    const read = [0, 1].map((partition) => positions.get(slot('scores', partition))).join()
    if (!left || read === this.#toldAt) return
    this.#toldAt = read
    const taskOf = (session: string): string =>
      state.turns.sessions.get(session)?.turns.find(({ task }) => task)?.task ?? ''
    const episodes = [...state.told].map(
      ([session, { task, awaited }]) => [session, task || taskOf(session), [...awaited].sort()] as const,
    )
    world.tells.push({
      by,
      seen: new Map(positions),
      left,
      episodes: episodes.toSorted(([a], [b]) => (a < b ? -1 : 1)),
    })
  }

  /** True: it tries again. */
  #leave(): boolean {
    if (this.#tries === 0) return false
    this.#readyAt ??= this.world.step
    if (this.#leaves.late && this.world.step < this.#readyAt + LATE_STEPS) return true
    this.#tries -= 1
    if (!mayReadScoresAlone(this.state)) return this.#tries > 0
    this.#tries = 0
    this.#left = new Map(this.positions)
    this.state.reads = 'scores'
    for (const snapshot of this.snapshots) snapshot.leave('turns')
    return false
  }

  fresh(kept: Keeping): TrainerState {
    return kept ? storedTrainer(kept(this.name), POLICY) : trainerState(POLICY)
  }
  folds(): Folds {
    return {
      turns: this.state.turns,
      scores: () => this.state.scores,
      updates: this.state.updates,
      weights: this.state.weights,
    }
  }

  evolve(logged: Logged<Event>): void {
    const outcome = trainerEvolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
    const { event } = logged
    if (
      this.world.off === 'product' &&
      outcome?.counted &&
      (event.type === 'TurnScored' || event.type === 'ScoreRevised')
    ) {
      const { pending } = this.state
      pending.set(`${event.version} `, new Set([...(pending.get(`${event.version} `) ?? []), event.turn]))
    }
  }

  forget(): void {
    this.#unread = null
    this.#computing = null
    this.#ahead = null
    this.#own.clear()
  }

  waits(): string | null {
    return this.#unread !== null || this.#computing ? 'its own record' : null
  }

  act(): boolean {
    const { random, training } = this.world
    if (this.#leave()) return true
    this.#tell()
    if (this.#computing) {
      if (random.chance(0.5)) return true
      this.#finish(this.#computing)
      this.#computing = null
      return true
    }
    if (this.#unread !== null) return false
    const ahead = this.world.ahead ? this.#ahead : undefined
    const decision = trainerDecide(this.state, training, this.now, this.mine(OWN), ahead)
    if (decision.do === 'wait') return false
    if (decision.do === 'compute') this.#computing = decision
    else if (decision.do === 'ahead') this.#computeAhead(decision.ahead)
    else if (decision.event.type === 'BatchSealed') {
      const sealed = this.#keepOwn(decision.event)
      this.#unread = this.append(sealed, ahead && decision.ahead ? { chosen: ahead.chosen } : {})
    } else this.#unread = this.append(decision.event)
    return true
  }

  #computeAhead(ahead: Ahead): void {
    const chosen = { seen: new Map(this.positions), now: this.now }
    this.#ahead = { ...ahead, chosen, result: trained(ahead.sealed, rewardsOf(ahead.sealed), this.name) }
  }

  #finish({ batch, sealed }: { batch: string; sealed: BatchSealed }): void {
    const { now } = this
    const { random, off } = this.world
    if (random.chance(0.1)) {
      const event = failed(this.state, batch, 'no_luck', now)
      if (event) this.#unread = this.append(event)
      return
    }
    const rewards = sealed.items.map((item) =>
      off === 'named' ? (this.state.scores.turns.get(item.turn)?.reward ?? item.reward) : item.reward,
    )
    const ahead = this.#ahead && isSameBatch(this.#ahead.sealed, sealed) ? this.#ahead.result : null
    const result = ahead ?? trained(sealed, rewards, this.name)
    this.#own.set(batch, result)
    const fingerprint = { engine: 'sim', build: this.name, isa: '', threads: 1, base: '' }
    const event = computed(
      this.state,
      batch,
      { ...result, adapterBytes: 1, stateBytes: 1, blobsAt: now, fingerprint, figures: {}, startedAt: now },
      now,
    )
    if (event) this.#unread = this.append(event)
  }

  #keepOwn(sealed: BatchSealed): BatchSealed {
    if (this.world.off !== 'adopt') return sealed
    const update = weightLine(this.state.weights, POLICY).versions.get(sealed.parent.version)?.update
    const own = this.#own.get(batchOfUpdate(updateLine(this.state.updates, POLICY), update ?? '')?.id ?? '')
    return own ? { ...sealed, parent: { ...sealed.parent, ...own } } : sealed
  }
}

type Candidate = { measured: Measured; flaw: string | null }
const SOUND: Figures = {
  finite: 1,
  kl_parent: 0.001,
  kl_base: 0.01,
  entropy: 0.1,
  length: 10,
  length_parent: 10,
  repetition: 0,
  positive_logprob: -1,
  positive_logprob_parent: -1,
}
/** The figures of a candidate that is rejected for a reason. */
const FLAWS: Record<string, Partial<Figures>> = {
  not_finite: { finite: 0 },
  kl_parent: { kl_parent: 0.5 },
  kl_base: { kl_base: 0.5 },
  length: { length: 100 },
  repetition: { repetition: 0.9 },
  positive_turns: { positive_logprob: -2 },
}

export class Publisher extends Process<PublisherState> {
  #unread: string | null = null
  #candidate: Candidate | null = null
  #promoting: { branch: string; candidate: Candidate | null } | null = null
  constructor(world: World, name: string, keeps: boolean) {
    super(world, name, ['updates', 'scores', 'weights'], keeps)
  }
  fresh(kept: Keeping): PublisherState {
    return kept ? storedPublisher(kept(this.name), POLICY) : publisherState(POLICY)
  }
  folds(): Folds {
    return {
      scores: () => this.state.scores,
      updates: this.state.updates,
      weights: this.state.weights,
    }
  }

  evolve(logged: Logged<Event>): void {
    publisherEvolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
  }

  forget(): void {
    this.#unread = null
    this.#candidate = null
    this.#promoting = null
  }

  waits(): string | null {
    return this.#unread !== null ? 'its own record' : null
  }

  promote(branch: string): void {
    this.#promoting ??= { branch, candidate: null }
  }

  act(): boolean {
    if (this.#unread !== null) return false
    if (this.#promoting && weightLine(this.state.weights, POLICY).started) return this.#promote(this.#promoting)
    const decision = publisherDecide(
      this.state,
      this.#candidate?.measured ?? null,
      THRESHOLDS,
      this.now,
      this.mine(OWN),
    )
    if (decision.do === 'wait') return false
    if (decision.do === 'start')
      this.#unread = this.append(lineStarted(POLICY, { name: 'sim', sha256: '' }, { content: 0.98 }, this.now))
    else if (decision.do === 'evaluate') this.#candidate = this.#measure(decision.update)
    else this.#unread = this.append(decision.event, this.#candidate ?? {})
    return true
  }

  #promote(request: { branch: string; candidate: Candidate | null }): boolean {
    const decision = decidePromotion(
      this.state,
      { branch: request.branch, asked: { who: 'simulation', why: '' } },
      request.candidate?.measured ?? null,
      THRESHOLDS,
      this.now,
    )
    const done = decision.do === 'append' && weightLine(this.state.weights, POLICY).verdicts.has(decision.event.update)
    if (decision.do === 'evaluate') request.candidate = this.#measure(decision.update)
    else if (decision.do === 'append' && !done) this.#unread = this.append(decision.event, request.candidate ?? {})
    if (decision.do !== 'evaluate') this.#promoting = null
    return true
  }

  #measure(update: string): Candidate {
    const { random } = this.world
    const flaw = random.chance(0.15) ? random.pick(Object.keys(FLAWS)) : null
    const figures = { ...SOUND, ...(flaw ? FLAWS[flaw] : {}), content: random.pick([0.98, 0.98, 0.98, 0.97, 1, 0.9]) }
    return { measured: { update, head: weightLine(this.state.weights, POLICY).head, figures, evidence: [] }, flaw }
  }
}
