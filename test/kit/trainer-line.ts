/** A trainer's line that a test fills turn by turn. */
import assert from 'node:assert/strict'
import {
  encodeEvent,
  recordId,
  updateLine,
  type BatchSealed,
  type Event,
  type Logged,
  type TurnState,
} from '@instar/events'
import type { BatchSettings } from '../../services/trainer/src/core/batch.ts'
import { decide } from '../../services/trainer/src/core/decide.ts'
import { evolve, initialState, type MemoryTrainer, type TrainerState } from '../../services/trainer/src/core/state.ts'

export const OPTIONS: BatchSettings = {
  batchSize: 16,
  batchMax: 16,
  groupWaitMs: 1000,
  keyShare: 0.5,
  subjectShare: 0.5,
  keyHeardMs: 1000,
  staleness: 4,
  loss: 'hybrid',
  taskEpisodes: 4,
  taskWaitMs: 1000,
  turnScoreWeight: 0.5,
  settings: {},
}

/** A live line of a policy, with turns and scores as the folds have them. */
export class Line {
  readonly state: MemoryTrainer
  offset = 0
  bytes = 0
  /** What `read` folded. */
  readonly records: Logged[] = []
  /** Turns and scores that the fold and the decision looked up. */
  lookups = 0
  /** `state`: empty; one in a snapshot has the same tables. */
  constructor(state: TrainerState = initialState('policy')) {
    this.state = state as MemoryTrainer
    for (const table of [this.state.turns.turns, this.state.scores.turns]) {
      const get = table.get.bind(table) as (id: string) => never
      table.get = (id: string) => {
        this.lookups += 1
        return get(id)
      }
    }
    const base = { name: 'm', sha256: 'x' }
    const started = { mode: 'live', base, parent: null, settings: {}, at: 1 } as const
    this.read({ type: 'LineStarted', prev: '', policy: 'policy', ...started })
  }

  read(event: Event): string {
    const record = encodeEvent(event)
    this.bytes = record.payload.length
    const id = recordId(record)
    const { topic, key } = record
    const logged = { id, topic, key, partition: 0, offset: this.offset++, timestamp: 1, event } as Logged
    this.records.push(logged)
    evolve(this.state, logged)
    return id
  }

  /** A turn and its score as the folds have them; other fields of the turn's record are not used here. */
  scored(id: string, version: number, changes: Partial<TurnState> = {}, reward = this.offset % 2): void {
    const session = id.slice(0, id.lastIndexOf('.'))
    const turn = {
      turn: id,
      record: id,
      session,
      policy: 'policy',
      version,
      status: 'complete',
      kind: 'main',
      group: id,
      candidate: 0,
      candidates: 1,
      shown: true,
      subject: session,
      key: null,
      finishedAt: 1,
      trainable: true,
      reason: null,
      discardedBy: null,
      task: null,
      outcomeBy: null,
      ...changes,
    } as TurnState
    this.state.turns.turns.set(id, turn)
    const event: Event = {
      type: 'TurnScored',
      turn: id,
      session,
      policy: 'policy',
      version,
      subject: turn.subject,
      verdicts: [],
      cause: 'c',
      rank: null,
      at: 2,
      reward,
      judge: 'j',
      hint: null,
      hintJudge: null,
    }
    const place = { topic: 'scores', key: 'policy', partition: 0, offset: this.offset++, timestamp: 1 } as const
    evolve(this.state, { id: `score of ${id}`, ...place, event })
  }

  /** The record of the decision, read back; null if it waits. */
  seal(options = OPTIONS, now = 9): BatchSealed | null {
    const decision = decide(this.state, options, now)
    if (decision.do === 'wait') return null
    assert.ok(decision.do === 'append' && decision.event.type === 'BatchSealed', decision.do)
    this.read(decision.event)
    return decision.event
  }

  /** The last batch becomes the next version. */
  publish(): void {
    const { chain, last } = updateLine(this.state.updates, 'policy')
    const number = this.state.weights.lines.get('policy')!.last + 1
    const adapter = { adapter: `a${number}`, adapterBytes: 1, state: `s${number}`, blobsAt: 1, figures: {} }
    const update = this.read({
      type: 'UpdateComputed',
      prev: chain.tip,
      policy: 'policy',
      batch: last,
      number,
      ...adapter,
      stateBytes: 1,
      startedAt: 1,
      at: 1,
      fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
    })
    const { tip } = this.state.weights.lines.get('policy')!.chain
    const published = { parent: number - 1, why: 'update', source: null, at: 1 } as const
    this.read({ type: 'VersionPublished', prev: tip, policy: 'policy', number, update, ...adapter, ...published })
  }

  freeze(on: boolean): void {
    const { tip } = this.state.weights.lines.get('policy')!.chain
    const request = `${on} ${this.offset}`
    this.read({ type: 'LearningFrozen', prev: tip, policy: 'policy', on, who: 'w', why: '', request, at: 3 })
  }
}

export const idOf = (i: number): string => `${'5e'.repeat(32)}.${String(i).padStart(32, '0')}`
