/** Scorer, trainer and publisher: their real cores, with judging, arithmetic and the gate left to chance. */
import { derivedId, TOPICS, weightLine, type BatchSealed, type Event, type Logged, type Topic } from '@instar/events'
import { decide as publisherDecide, decidePromotion, lineStarted, type Measured } from '@instar/publisher/core/decide'
import { THRESHOLDS, type Figures } from '@instar/publisher/core/gate'
import { evolve as publisherEvolve, initialState as publisherState, type MemoryPublisher } from '@instar/publisher/core/state'
import { closeIdle, decide as scorerDecide, judged, lookAgain, stillOurs, type JudgeRequest } from '@instar/scorer/core/decide'
import type { Judged } from '@instar/scorer/core/judgement'
import { evolve as scorerEvolve, forgetWork, initialState as scorerState, type MemoryScorer } from '@instar/scorer/core/state'
import { computed, decide as trainerDecide, failed } from '@instar/trainer/core/decide'
import { evolve as trainerEvolve, initialState as trainerState, type MemoryTrainer } from '@instar/trainer/core/state'
import { Process } from './process.ts'
import type { Folds } from './rules.ts'
import type { World } from './world.ts'

export const POLICY = 'policy'
/** Whoever holds this partition works on its chains. */
const OWN = 0
export const IDLE_MS = 150
export const BATCH = 2
const TRAINING = { batchSize: BATCH, groupWaitMs: 1000, keyShare: 0.5, subjectShare: 0.5, keyHeardMs: 1000, staleness: 4, loss: 'hybrid', settings: {} }

export class Scorer extends Process<MemoryScorer> {
  #asked: JudgeRequest[] = []
  constructor(world: World, name: string) { super(world, name, ['turns', 'scores']) }
  fresh(): MemoryScorer { return scorerState() }
  evolve(logged: Logged<Event>): void { scorerEvolve(this.state, logged) }
  folds(): Folds { return { turns: this.state.turns, scores: (policy) => this.state.scores.get(policy) } }
  forget(): void { this.#asked = [] }
  override restored(): void { forgetWork(this.state) }
  override shared(): void { if (this.world.off !== 'handover') lookAgain(this.state) }
  waits(): string | null {
    const { work, closing, needed } = this.state
    return this.#asked.length + work.size + closing.size + needed.size === 0 ? null : `${this.#asked.length} judges, ${work.size} turns, ${closing.size} closings, ${needed.size} turns without a score`
  }

  act(): boolean {
    const { random, now } = this.world
    const rules = { idleMs: IDLE_MS, judgesAlone: false, staleness: null }
    if (this.#asked.length > 0 && random.chance(0.5)) {
      const [request] = this.#asked.splice(random.below(this.#asked.length), 1)
      const output = request && stillOurs(this.state, request, this.mine) ? judged(this.state, request, this.#opinion(request), now) : null
      if (output?.do === 'append') this.append(output.event)
      return true
    }
    const outputs = [...scorerDecide(this.state, rules, now, this.mine), ...closeIdle(this.state, rules, now, this.mine).outputs]
    for (const output of outputs) {
      if (output.do === 'judge') this.#asked.push(output)
      else this.append(output.event)
    }
    return outputs.length > 0 || this.#asked.length > 0
  }

  #opinion(request: JudgeRequest): Judged {
    const { random } = this.world
    const value = request.feedback?.value ?? random.pick([1, -1, null])
    const judge = request.feedback ? 'feedback' : this.name
    return { verdicts: [{ judge, value, note: '' }], reward: value, judge: value === null ? null : judge, hint: null, hintJudge: null, reason: value === null ? 'abstained' : null }
  }
}

export const trained = (sealed: BatchSealed, rewards: readonly number[], build: string): { adapter: string; state: string } => {
  const inputs = JSON.stringify([sealed.parent.adapter, sealed.parent.state, sealed.items.map((item, i) => [item.turn, rewards[i], item.baseline]), sealed.seed])
  return { adapter: derivedId('adapter', inputs, build), state: derivedId('state', inputs, build) }
}

export class Trainer extends Process<MemoryTrainer> {
  #unread: string | null = null
  #computing: { batch: string; sealed: BatchSealed } | null = null
  /** Adapter that this process computed, by its batch. */
  #own = new Map<string, { adapter: string; state: string }>()
  constructor(world: World, name: string) { super(world, name, ['turns', 'scores', 'updates', 'weights']) }
  fresh(): MemoryTrainer { return trainerState(POLICY) }
  folds(): Folds { return { turns: this.state.turns, scores: () => this.state.scores, updates: this.state.updates, weights: this.state.weights } }

  evolve(logged: Logged<Event>): void {
    const outcome = trainerEvolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
    const { event } = logged
    if (this.world.off === 'product' && outcome?.counted && (event.type === 'TurnScored' || event.type === 'ScoreRevised')) {
      const { pending } = this.state
      pending.set(`${event.version} `, new Set([...pending.get(`${event.version} `) ?? [], event.turn]))
    }
  }

  forget(): void {
    this.#unread = null
    this.#computing = null
    this.#own.clear()
  }

  waits(): string | null {
    if (this.#unread !== null || this.#computing) return 'its own record'
    const decision = trainerDecide(this.state, TRAINING, this.world.now)
    return decision.do === 'wait' && (decision.why === 'turns' || decision.why === 'frozen' || (decision.why === 'verdict' && weightLine(this.state.weights, POLICY).frozen)) ? null : JSON.stringify(decision)
  }

  act(): boolean {
    const { random, now } = this.world
    if (this.#computing) {
      if (random.chance(0.5)) return true
      this.#finish(this.#computing)
      this.#computing = null
      return true
    }
    if (this.#unread !== null) return false
    const decision = trainerDecide(this.state, TRAINING, now, this.mine(OWN))
    if (decision.do === 'wait') return false
    if (decision.do === 'compute') this.#computing = decision
    else this.#unread = this.append(decision.event.type === 'BatchSealed' ? this.#keepOwn(decision.event) : decision.event)
    return true
  }

  #finish({ batch, sealed }: { batch: string; sealed: BatchSealed }): void {
    const { random, now, off } = this.world
    if (random.chance(0.1)) {
      const event = failed(this.state, batch, 'no_luck', now)
      if (this.state.updates.lines.get(POLICY)?.byId.get(batch)?.status === 'sealed') this.#unread = this.append(event)
      return
    }
    const rewards = sealed.items.map((item) => (off === 'named' ? this.state.scores.turns.get(item.turn)?.reward ?? item.reward : item.reward))
    const result = trained(sealed, rewards, this.name)
    this.#own.set(batch, result)
    const event = computed(this.state, batch, { ...result, adapterBytes: 1, stateBytes: 1, blobsAt: now, fingerprint: { engine: 'sim', build: this.name, isa: '', threads: 1, base: '' }, figures: {}, startedAt: now }, now)
    if (event) this.#unread = this.append(event)
  }

  #keepOwn(sealed: BatchSealed): BatchSealed {
    if (this.world.off !== 'adopt') return sealed
    const update = weightLine(this.state.weights, POLICY).versions.get(sealed.parent.version)?.update
    const batch = this.state.updates.lines.get(POLICY)?.batches.find((b) => b.update?.id === update)
    const own = batch && this.#own.get(batch.id)
    return own ? { ...sealed, parent: { ...sealed.parent, ...own } } : sealed
  }
}

export class Publisher extends Process<MemoryPublisher> {
  #unread: string | null = null
  #measured: Measured | null = null
  #promoting: { branch: string; measured: Measured | null } | null = null
  constructor(world: World, name: string) { super(world, name, ['turns', 'scores', 'updates', 'weights']) }
  fresh(): MemoryPublisher { return publisherState(POLICY) }
  folds(): Folds { return { turns: this.state.turns, scores: () => this.state.scores, updates: this.state.updates, weights: this.state.weights } }

  evolve(logged: Logged<Event>): void {
    publisherEvolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
  }

  forget(): void {
    this.#unread = null
    this.#measured = null
    this.#promoting = null
  }

  waits(): string | null {
    if (this.#unread !== null) return 'its own record'
    const decision = publisherDecide(this.state, this.#measured, THRESHOLDS, this.world.now)
    return decision.do === 'wait' ? null : decision.do
  }

  promote(branch: string): void { this.#promoting ??= { branch, measured: null } }

  act(): boolean {
    if (this.#unread !== null) return false
    if (this.#promoting && weightLine(this.state.weights, POLICY).started) return this.#promote(this.#promoting)
    const decision = publisherDecide(this.state, this.#measured, THRESHOLDS, this.world.now, this.mine(OWN))
    if (decision.do === 'wait') return false
    if (decision.do === 'start') this.#unread = this.append(lineStarted(POLICY, { name: 'sim', sha256: '' }, { content: 0.98 }, this.world.now))
    else if (decision.do === 'evaluate') this.#measured = this.#measure(decision.update)
    else this.#unread = this.append(decision.event)
    return true
  }

  #promote(request: { branch: string; measured: Measured | null }): boolean {
    const decision = decidePromotion(this.state, request.branch, request.measured, THRESHOLDS, this.world.now)
    const done = decision.do === 'append' && weightLine(this.state.weights, POLICY).verdicts.has(decision.event.update)
    if (decision.do === 'evaluate') request.measured = this.#measure(decision.update)
    else if (decision.do === 'append' && !done) this.#unread = this.append(decision.event)
    if (decision.do !== 'evaluate') this.#promoting = null
    return true
  }

  #measure(update: string): Measured {
    const good = this.world.random.chance(0.75)
    const figures: Figures = { finite: 1, kl_parent: good ? 0.001 : 0.5, kl_base: 0.01, entropy: 0.1, length: 10, length_parent: 10, repetition: 0, content: 0.98 }
    return { update, head: weightLine(this.state.weights, POLICY).head, figures, evidence: [] }
  }
}

/**
 * A replay writes a branch beside the live line, on the same topics: it scores again what the trunk may
 * have scored, seals, computes, publishes. One writer, which dies like everyone else.
 */
export const BRANCH = 'policy~again'

export class Branch extends Process<MemoryPublisher> {
  #unread: string | null = null
  #steps = 0
  override readonly live = false
  constructor(world: World, name: string) { super(world, name, TOPICS.filter((topic): topic is Exclude<Topic, 'blobs'> => topic !== 'blobs')) }
  fresh(): MemoryPublisher { return publisherState(BRANCH) }
  folds(): Folds { return { turns: this.state.turns, updates: this.state.updates, weights: this.state.weights } }
  evolve(logged: Logged<Event>): void {
    publisherEvolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
  }
  forget(): void { this.#unread = null }
  waits(): string | null { return this.#unread }

  act(): boolean {
    if (this.#unread !== null || this.#steps > 12) return false
    this.#steps += 1
    const { now, random } = this.world
    const line = weightLine(this.state.weights, BRANCH)
    const trunk = weightLine(this.state.weights, POLICY)
    if (!trunk.started) return false
    if (!line.started) return this.#write({ type: 'LineStarted', prev: '', policy: BRANCH, mode: 'replay', base: trunk.started.base, parent: { policy: POLICY, version: 0, adapter: null, state: null }, settings: {}, at: now })
    const unscored = [...this.state.turns.turns.values()].find((turn) => turn.next !== null && !this.state.scores.turns.has(turn.turn))
    if (unscored && random.chance(0.5)) return this.#write({ type: 'TurnScored', turn: unscored.turn, session: unscored.session, policy: BRANCH, version: unscored.version, subject: unscored.subject, reward: 1, judge: 'replay', hint: null, hintJudge: null, verdicts: [], cause: unscored.turn, rank: null, at: now })
    return this.#batch(line.head)
  }

  #batch(head: number): boolean {
    const { now } = this.world
    const updates = this.state.updates.lines.get(BRANCH)
    const version = weightLine(this.state.weights, BRANCH).versions.get(head)
    const last = updates?.batches.at(-1)
    const prev = updates?.chain.tip ?? ''
    if (!last || (last.status === 'computed' && weightLine(this.state.weights, BRANCH).verdicts.has(last.update?.id ?? ''))) {
      return this.#write({ type: 'BatchSealed', prev, policy: BRANCH, number: (updates?.batches.length ?? 0) + 1, parent: { version: head, adapter: version?.adapter ?? null, state: version?.state ?? null }, items: [], dropped: [], baselines: [], seed: 1, loss: 'hybrid', settings: {}, at: now })
    }
    if (last.status === 'sealed') return this.#write({ type: 'UpdateComputed', prev, policy: BRANCH, batch: last.id, number: last.sealed.number, ...trained(last.sealed, [], this.name), adapterBytes: 1, stateBytes: 1, blobsAt: now, fingerprint: { engine: 'sim', build: this.name, isa: '', threads: 1, base: '' }, figures: {}, startedAt: now, at: now })
    const update = last.update!
    return this.#write({ type: 'VersionPublished', prev: weightLine(this.state.weights, BRANCH).chain.tip, policy: BRANCH, number: head + 1, update: update.id, adapter: update.event.adapter, adapterBytes: 1, state: update.event.state, blobsAt: now, parent: head, why: 'update', source: null, figures: {}, at: now })
  }

  #write(event: Event): boolean {
    this.#unread = this.append(event)
    return true
  }
}
