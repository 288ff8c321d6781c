/**
 * A replay that writes a branch beside the live line, on the same topics: it scores again what the trunk may have
 * scored, seals, computes, publishes. One writer, which is killed like all others and keeps nothing.
 */
import {
  foldTurns,
  initialTurns,
  weightLine,
  type Event,
  type Logged,
  type MemoryTurns,
  type TurnsEvent,
} from '@instar/events'
import { evolve, initialState, type MemoryPublisher } from '../../services/publisher/src/core/state.ts'
import { Process } from './process.ts'
import type { Folds } from './rules.ts'
import { POLICY, trained } from './services.ts'
import type { World } from './world.ts'

export const BRANCH = 'policy~again'
/** The settings that it records. */
const BATCHES = 2
const MOST_STEPS = 16

type BranchState = MemoryPublisher & { turns: MemoryTurns }

export class Branch extends Process<BranchState> {
  #unread: string | null = null
  #steps = 0
  override readonly live = false
  constructor(world: World, name: string) {
    super(world, name, ['turns', 'scores', 'updates', 'weights'], false)
  }
  fresh(): BranchState {
    return { ...initialState(BRANCH), turns: initialTurns() }
  }
  folds(): Folds {
    return { turns: this.state.turns, updates: this.state.updates, weights: this.state.weights }
  }
  evolve(logged: Logged<Event>): void {
    if (logged.topic === 'turns') foldTurns(this.state.turns, logged as Logged<TurnsEvent>)
    else evolve(this.state, logged)
    if (logged.id === this.#unread) this.#unread = null
  }
  forget(): void {
    this.#unread = null
  }
  waits(): string | null {
    return this.#unread
  }

  act(): boolean {
    if (this.#unread !== null || this.#steps > MOST_STEPS) return false
    this.#steps += 1
    const { now } = this
    const line = weightLine(this.state.weights, BRANCH)
    const trunk = weightLine(this.state.weights, POLICY)
    if (!trunk.started) return false
    if (!line.started)
      return this.#write({
        type: 'LineStarted',
        prev: '',
        policy: BRANCH,
        mode: 'replay',
        base: trunk.started.base,
        parent: { policy: POLICY, version: 0, adapter: null, state: null },
        settings: { batches: BATCHES },
        at: now,
      })
    const unscored = [...this.state.turns.turns.values()].find(
      (turn) => turn.next !== null && !this.state.scores.turns.has(turn.turn),
    )
    if (unscored && this.world.random.chance(0.5))
      return this.#write({
        type: 'TurnScored',
        turn: unscored.turn,
        session: unscored.session,
        policy: BRANCH,
        version: unscored.version,
        subject: unscored.subject,
        reward: 1,
        judge: 'replay',
        hint: null,
        hintJudge: null,
        verdicts: [],
        cause: unscored.turn,
        rank: null,
        at: now,
      })
    return this.#batch(line.head)
  }

  #batch(head: number): boolean {
    const { now } = this
    const updates = this.state.updates.lines.get(BRANCH)
    const version = weightLine(this.state.weights, BRANCH).versions.get(head)
    const last = updates?.batches.at(-1)
    const prev = updates?.chain.tip ?? ''
    if (
      !last ||
      (last.status === 'computed' && weightLine(this.state.weights, BRANCH).verdicts.has(last.update?.id ?? ''))
    ) {
      return this.#write({
        type: 'BatchSealed',
        prev,
        policy: BRANCH,
        number: (updates?.batches.length ?? 0) + 1,
        parent: { version: head, adapter: version?.adapter ?? null, state: version?.state ?? null },
        items: [],
        dropped: [],
        baselines: [],
        seed: 1,
        loss: 'hybrid',
        settings: {},
        at: now,
      })
    }
    if (last.status === 'sealed')
      return this.#write({
        type: 'UpdateComputed',
        prev,
        policy: BRANCH,
        batch: last.id,
        number: last.sealed.number,
        ...trained(last.sealed, [], this.name),
        adapterBytes: 1,
        stateBytes: 1,
        blobsAt: now,
        fingerprint: { engine: 'sim', build: this.name, isa: '', threads: 1, base: '' },
        figures: {},
        startedAt: now,
        at: now,
      })
    const update = last.update!
    return this.#write({
      type: 'VersionPublished',
      prev: weightLine(this.state.weights, BRANCH).chain.tip,
      policy: BRANCH,
      number: head + 1,
      update: update.id,
      adapter: update.event.adapter,
      adapterBytes: 1,
      state: update.event.state,
      blobsAt: now,
      parent: head,
      why: 'update',
      source: null,
      figures: {},
      at: now,
    })
  }

  #write(event: Event): boolean {
    this.#unread = this.append(event)
    return true
  }
}
