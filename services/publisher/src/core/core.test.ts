import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  decodeRecord,
  discardRank,
  encodeEvent,
  topicOf,
  updateLine,
  weightLine,
  type Event,
  type Logged,
  type Topic,
  type TurnScored,
} from '@instar/events'
import { captured } from '../../../../test/kit/scored-history.ts'
import { randomHistory } from '../../../../test/kit/histories.ts'
import { seeded } from '../../../../test/kit/random.ts'
import { computedUpdate, sealedBatch } from '../../../../test/kit/updates.ts'
import { decide, decidePromotion, lineStarted, type Measured } from './decide.ts'
import { checkCandidate, THRESHOLDS, type Figures } from './gate.ts'
import { placeOf, positiveTurns } from './evidence.ts'
import { evolve, initialState, type PublisherState } from './state.ts'

const ASKED = { who: 'ann (key)', why: 'it is better' }
const PROMOTED = { branch: 'policy~b', asked: ASKED }

const PROMPT = { from: null, prefix: 0, ids: [1], length: 1 }

const GOOD: Figures = {
  finite: 1,
  kl_parent: 0.006,
  kl_base: 0.1,
  entropy: 0.1,
  length: 20,
  length_parent: 18,
  repetition: 0.02,
  content: 0.98,
  positive_logprob: -0.4,
  positive_logprob_parent: -0.3,
}

describe('the gate', () => {
  const reason = (changes: Partial<Figures>, best: number | null = 0.99): string | null => {
    const result = checkCandidate({ ...GOOD, ...changes }, best, THRESHOLDS)
    return result.accepted ? null : result.reason
  }
  it('passes a good update', () => assert.equal(reason({}), null))
  it('rejects an update for each figure beyond its threshold', () => {
    assert.equal(reason({ kl_parent: 0.071 }), 'kl_parent')
    assert.equal(reason({ kl_base: 0.3 }), 'kl_base')
    assert.equal(reason({ content: 0.944 }), 'content')
    assert.equal(reason({ length: 60 }), 'length')
    assert.equal(reason({ repetition: 0.6 }), 'repetition')
    assert.equal(reason({ positive_logprob: -0.9 }), 'positive_turns')
    assert.equal(reason({ finite: 0 }), 'not_finite')
    assert.equal(reason({ kl_parent: Number.NaN }), 'not_finite')
  })
  it('rejects answers of one token, and distributions without entropy', () => {
    assert.equal(reason({ length: 1 }), 'length_low')
    assert.equal(reason({ length: 1.81 }), null, 'a tenth of the parent')
    assert.equal(reason({ length: 1, length_parent: 15.9 }), null, 'short answers may get shorter')
    assert.equal(reason({ entropy: 0, entropy_parent: 0.1 }), 'entropy_low')
    assert.equal(reason({ entropy: 0.011, entropy_parent: 0.1 }), null)
    assert.equal(reason({ entropy: 0 }), null, 'the entropy of the head was not recorded')
  })
  it('rejects a candidate whose answers are cut at the token limit, which hides their length', () => {
    assert.equal(reason({ length: 64, length_parent: 30, cut: 0.6, cut_parent: 0 }), 'length')
    assert.equal(reason({ length: 64, length_parent: 30, cut: 0.5, cut_parent: 0 }), null)
    assert.equal(reason({ length: 64, length_parent: 60, cut: 0.9, cut_parent: 0.8 }), null)
    assert.equal(reason({ length: 64, length_parent: 60, cut: 0.96, cut_parent: 0.7 }), 'length')
  })
  it('a line that became short may return to the length of its base, and no further', () => {
    const short = { length: 30, length_parent: 22, cut_parent: 0.2, cut_base: 0.9 }
    assert.equal(reason({ ...short, cut: 0.9 }), null)
    assert.equal(reason({ ...short, cut: 0.91 }), 'length')
    assert.equal(reason({ ...short, cut: 0.6, cut_base: 0.3 }), 'length', 'where answers of the base end')
  })
  it('content is compared with the best accepted version, so a slow decline is rejected', () => {
    assert.equal(reason({ content: 0.96 }, 0.97), null)
    assert.equal(reason({ content: 0.95 }, 0.995), 'content')
    assert.equal(reason({ content: 0.5 }, null), null)
  })
})

class History {
  readonly state: PublisherState = initialState('policy')
  private n = 0
  add(event: Event): Logged {
    const logged = decodeRecord({ ...encodeEvent(event), partition: 0, offset: this.n++ })
    evolve(this.state, logged)
    return logged
  }
  tip(policy = 'policy'): string {
    return weightLine(this.state.weights, policy).chain.tip
  }
  start(content = 0.99): void {
    this.add(lineStarted('policy', { name: 'm', sha256: 'x' }, { content }, 1))
  }
  update(number: number, parent: number, policy = 'policy'): string {
    const tip = (): string => updateLine(this.state.updates, policy).chain.tip
    const batch = this.add({
      type: 'BatchSealed',
      prev: tip(),
      policy,
      number,
      parent: { version: parent, adapter: null, state: null },
      items: [],
      dropped: [],
      baselines: [],
      seed: 1,
      loss: 'hybrid',
      settings: {},
      at: number,
    }).id
    return this.add({
      type: 'UpdateComputed',
      prev: tip(),
      policy,
      batch,
      number,
      adapter: `a${number}`,
      adapterBytes: 1,
      state: `s${number}`,
      stateBytes: 1,
      blobsAt: number,
      fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
      figures: {},
      startedAt: 1,
      at: number,
    }).id
  }
  decide(measured: Measured | null = null): ReturnType<typeof decide> {
    const decision = decide(this.state, measured, THRESHOLDS, 9)
    if (decision.do === 'append') this.add(decision.event)
    return decision
  }
}

describe('decide', () => {
  it('starts the line, measures a candidate and publishes it with a record that moves the head', () => {
    const h = new History()
    assert.deepEqual(h.decide(), { do: 'start' })
    h.start()
    assert.deepEqual(h.decide(), { do: 'wait', why: 'updates' })
    const update = h.update(1, 0)
    assert.equal(h.decide().do, 'evaluate')
    h.decide({ update, head: 0, figures: GOOD, evidence: [] })
    const line = weightLine(h.state.weights, 'policy')
    assert.equal(line.head, 1)
    assert.equal(line.versions.get(1)?.adapter, 'a1')
    assert.deepEqual(line.verdicts.get(update), { accepted: true, version: 1 })
    assert.equal(line.bestContent, 0.99)
    assert.deepEqual(h.decide(), { do: 'wait', why: 'updates' })
  })
  it('a standby publisher starts, measures and publishes nothing, but executes promotions', () => {
    const h = new History()
    const assertStandby = (): void =>
      assert.deepEqual(decide(h.state, null, THRESHOLDS, 9, false), { do: 'wait', why: 'standby' })
    assertStandby()
    h.start()
    h.update(1, 0)
    assertStandby()
    assert.equal(decide(h.state, null, THRESHOLDS, 9, true).do, 'evaluate')
    assert.deepEqual(decidePromotion(h.state, { branch: 'policy~no', asked: ASKED }, null, THRESHOLDS, 9), {
      do: 'refuse',
      why: 'unknown_branch',
    })
  })
  it('a candidate whose parent is no longer the head is rejected, also while frozen; a frozen line waits otherwise', () => {
    const h = new History()
    h.start()
    h.decide({ update: h.update(1, 0), head: 0, figures: GOOD, evidence: [] })
    const update = h.update(2, 1)
    h.add({ type: 'LearningFrozen', prev: h.tip(), policy: 'policy', on: true, who: 'w', why: '', request: 'r', at: 3 })
    assert.deepEqual(h.decide({ update, head: 1, figures: GOOD, evidence: [] }), { do: 'wait', why: 'frozen' })
    h.add({
      type: 'HeadMoved',
      prev: h.tip(),
      policy: 'policy',
      from: 1,
      to: 0,
      who: 'w',
      why: '',
      request: 'q',
      freeze: true,
      at: 4,
    })
    h.decide()
    assert.deepEqual(weightLine(h.state.weights, 'policy').verdicts.get(update), {
      accepted: false,
      reason: 'stale_parent',
    })
  })
  it('figures measured against another head are measured again', () => {
    const h = new History()
    h.start()
    const update = h.update(1, 0)
    assert.equal(h.decide({ update, head: 7, figures: GOOD, evidence: [] }).do, 'evaluate')
  })
  it('rejections of measured candidates are counted until a candidate is accepted or the head moves', () => {
    const h = new History()
    h.start()
    const rejectionsInARow = (): number => weightLine(h.state.weights, 'policy').rejectionsInARow
    const rejected = (number: number, parent: number): void =>
      void h.decide({
        update: h.update(number, parent),
        head: parent,
        figures: { ...GOOD, kl_parent: 0.45 },
        evidence: [],
      })
    rejected(1, 0)
    rejected(2, 0)
    assert.equal(rejectionsInARow(), 2)
    h.update(3, 7)
    h.decide()
    assert.equal(rejectionsInARow(), 2, 'a candidate with a stale parent is not measured')
    h.decide({ update: h.update(4, 0), head: 0, figures: GOOD, evidence: [] })
    assert.equal(rejectionsInARow(), 0)
    rejected(5, 1)
    assert.equal(rejectionsInARow(), 1)
    h.add({
      type: 'HeadMoved',
      prev: h.tip(),
      policy: 'policy',
      from: 1,
      to: 0,
      who: 'w',
      why: '',
      request: 'q',
      freeze: false,
      at: 4,
    })
    assert.equal(rejectionsInARow(), 0)
  })
  it('a verdict records the limits against which its figures were held; one without figures records none', () => {
    const h = new History()
    h.start()
    const lax = { ...THRESHOLDS, klParent: 0.05, samples: 12 }
    const verdictUnder = (limits: typeof lax, figures: Figures, update: string): Event => {
      const decision = decide(h.state, { update, head: 0, figures, evidence: [] }, limits, 9)
      assert.ok(decision.do === 'append')
      return h.add(decision.event).event
    }
    const figures = { ...GOOD, kl_parent: 0.05 }
    const rejected = verdictUnder({ ...lax, klParent: 0.04 }, figures, h.update(1, 0))
    assert.ok(rejected.type === 'VersionRejected')
    assert.deepEqual({ ...rejected.limits }, { ...lax, klParent: 0.04 })
    const published = verdictUnder(lax, figures, h.update(2, 0))
    assert.ok(published.type === 'VersionPublished')
    assert.deepEqual({ ...published.limits }, lax)
    h.update(3, 0)
    const stale = h.decide()
    assert.ok(stale.do === 'append' && stale.event.type === 'VersionRejected')
    assert.deepEqual([stale.event.reason, stale.event.limits], ['stale_parent', {}])
  })
  it('version numbers continue after a rollback', () => {
    const h = new History()
    h.start()
    h.decide({ update: h.update(1, 0), head: 0, figures: GOOD, evidence: [] })
    h.decide({ update: h.update(2, 1), head: 1, figures: GOOD, evidence: [] })
    h.add({
      type: 'HeadMoved',
      prev: h.tip(),
      policy: 'policy',
      from: 2,
      to: 1,
      who: 'w',
      why: '',
      request: 'q',
      freeze: false,
      at: 4,
    })
    h.decide({ update: h.update(3, 1), head: 1, figures: GOOD, evidence: [] })
    const published = weightLine(h.state.weights, 'policy').versions.get(3)
    assert.equal(published?.parent, 1)
  })
})

describe('promotion', () => {
  it("publishes a branch's last version if the gate accepts it; records of the branch do not move the head", () => {
    const h = new History()
    h.start()
    assert.deepEqual(decidePromotion(h.state, PROMOTED, null, THRESHOLDS, 9), { do: 'refuse', why: 'unknown_branch' })
    h.add({
      type: 'LineStarted',
      prev: '',
      policy: 'policy~b',
      mode: 'replay',
      base: { name: 'm', sha256: 'x' },
      parent: null,
      settings: {},
      at: 1,
    })
    assert.deepEqual(decidePromotion(h.state, PROMOTED, null, THRESHOLDS, 9), { do: 'refuse', why: 'empty_branch' })
    const update = h.update(1, 0, 'policy~b')
    h.add({
      type: 'VersionPublished',
      prev: h.tip('policy~b'),
      policy: 'policy~b',
      number: 1,
      update,
      adapter: 'a1',
      adapterBytes: 1,
      state: 's1',
      blobsAt: 1,
      parent: 0,
      why: 'update',
      source: null,
      figures: {},
      at: 2,
    })
    assert.equal(weightLine(h.state.weights, 'policy').head, 0)
    assert.equal(decidePromotion(h.state, PROMOTED, null, THRESHOLDS, 9).do, 'evaluate')
    const far = decidePromotion(
      h.state,
      PROMOTED,
      { update, head: 0, figures: { ...GOOD, kl_base: 1 }, evidence: [] },
      THRESHOLDS,
      9,
    )
    assert.ok(far.do === 'append' && far.event.type === 'VersionRejected' && far.event.reason === 'kl_base')
    assert.deepEqual(far.event.asked, ASKED)
    const good = decidePromotion(h.state, PROMOTED, { update, head: 0, figures: GOOD, evidence: [] }, THRESHOLDS, 9)
    assert.ok(good.do === 'append' && good.event.type === 'VersionPublished')
    assert.deepEqual(good.event.asked, ASKED, 'who asked, and why, is in the record of the verdict')
    h.add(good.event)
    assert.equal(weightLine(h.state.weights, 'policy').versions.get(1)?.published?.source?.policy, 'policy~b')
  })
})

describe('held-out praised turns', () => {
  const scored = (turn: string, session: string, reward: number, type: 'TurnScored' | 'ScoreRevised'): Event => ({
    type,
    reward,
    judge: 'j',
    hint: null,
    hintJudge: null,
    turn,
    session,
    policy: 'policy',
    version: 0,
    subject: 'u',
    verdicts: [],
    cause: `${type} ${turn}`,
    rank: null,
    at: 3,
  })
  const sealed = (policy: string, prev: string, turns: readonly string[]): Event => ({
    type: 'BatchSealed',
    prev,
    policy,
    number: 1,
    parent: { version: 0, adapter: null, state: null },
    items: turns.map((turn) => ({
      turn,
      record: 'r',
      session: turn,
      score: 's',
      subject: 'u',
      reward: 1,
      hint: null,
      baseline: 0,
      advantage: 1,
      version: 0,
    })),
    dropped: [],
    baselines: [],
    seed: 1,
    loss: 'hybrid',
    settings: {},
    at: 4,
  })
  it('are turns that no batch was trained on, neither an earlier one nor one of a branch, in any order', () => {
    const turns = ['a', 'b', 'c', 'd'].map((session) => {
      const messages = [{ role: 'user', content: 'q' }] as const
      return { ...captured({ session, messages, answer: 'x', at: 1, version: 0 }), prompt: PROMPT, ids: [1] }
    })
    const [earlier, branch, revised, free] = turns.map(({ turn }) => turn) as [string, string, string, string]
    const scores = turns.map(({ turn, session }) => scored(turn, session, 1, 'TurnScored'))
    const batches = [sealed('policy', '', [earlier, revised]), sealed('policy~b', '', [branch])]
    for (const order of [
      [...scores, ...batches],
      [...batches, ...scores],
    ]) {
      const h = new History()
      for (const event of [...turns, ...order]) h.add(event)
      h.add(scored(revised, 'c', 1, 'ScoreRevised'))
      assert.deepEqual(positiveTurns(h.state, 16), [free])
    }
  })
  it('are usable turns: an untrainable or aborted one is not held out, and an abort takes what was praised', () => {
    const h = new History()
    const of = {
      record: 'r',
      group: 'g',
      candidates: 1,
      shown: true,
      key: null,
      task: null,
      begunAt: 1,
      at: 2,
      finishedAt: 3,
    }
    const add = (turn: string, unusable: string | null, earlier: number[] | null = null): void => {
      h.add({ ...scored(turn, 's', 1, 'TurnScored'), of: { ...of, unusable, earlier } } as Event)
    }
    add('s.a', null, [1])
    add('s.b', 'opted_out')
    add('s.c', 'client_gone')
    h.add(scored('s.old', 's', 1, 'TurnScored'))
    assert.deepEqual(positiveTurns(h.state, 16), ['s.old', 's.a'])
    const {
      reward: _,
      judge: __,
      hint: ___,
      hintJudge: ____,
      ...skip
    } = scored('s.a', 's', 1, 'TurnScored') as TurnScored
    h.add({
      ...skip,
      type: 'TurnSkipped',
      reason: 'discarded',
      of: { ...of, unusable: 'discarded', earlier: null },
      rank: discardRank('c'),
    })
    assert.deepEqual(positiveTurns(h.state, 16), ['s.old'])
    const place = { at: 2, finishedAt: 3, begunAt: 1, earlier: [1] }
    assert.deepEqual(placeOf(h.state, 's.a'), { scoredAt: 3, of: place }, 'a skip does not forget what the score said')
    assert.deepEqual(placeOf(h.state, 's.old'), { scoredAt: 3, of: null })
    assert.equal(placeOf(h.state, 's.none'), undefined)
  })
})

describe('updates without a verdict', () => {
  it('do not depend on the order in which topics are read, also if a batch was computed twice', () => {
    const h = new History()
    const weights: Logged[] = []
    const updates: Logged[] = []
    const computed = (batch: string, number: number): Event =>
      computedUpdate(number, { prev: updateLine(h.state.updates, 'policy').chain.tip, batch, number, startedAt: 1 })
    weights.push(h.add(lineStarted('policy', { name: 'm', sha256: 'x' }, { content: 0.99 }, 1)))
    const sealed = h.add(sealedBatch({}))
    updates.push(sealed, h.add(computed(sealed.id, 2)), h.add(computed(sealed.id, 3)))
    const rejected = (update: string): Event => ({
      type: 'VersionRejected',
      prev: h.tip(),
      policy: 'policy',
      update,
      adapter: 'a2',
      parent: 0,
      reason: 'content',
      figures: {},
      evidence: [],
      at: 4,
    })
    // Only a verdict on the first outcome of the batch settles it.
    for (const [at, unsettled] of [
      [2, [sealed.id]],
      [1, []],
    ] as const) {
      weights.push(h.add(rejected(updates[at]!.id)))
      for (let first = 0; first <= updates.length; first += 1) {
        const state = initialState('policy')
        for (const logged of [...updates.slice(0, first), ...weights, ...updates.slice(first)]) evolve(state, logged)
        assert.deepEqual([...state.unsettled], unsettled, `the verdict after ${first} records of updates`)
      }
    }
  })
})

describe('orders of reading', () => {
  it('an update of a batch that the line does not have never waits for a verdict', () => {
    const h = new History()
    h.start()
    h.add({
      type: 'UpdateComputed',
      prev: '',
      policy: 'policy',
      batch: 'unknown',
      number: 1,
      adapter: 'a',
      adapterBytes: 1,
      state: 's',
      stateBytes: 1,
      blobsAt: 1,
      fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
      figures: {},
      startedAt: 1,
      at: 1,
    })
    assert.deepEqual([...h.state.unsettled], [])
    assert.deepEqual(h.decide(), { do: 'wait', why: 'updates' })
    const update = h.update(1, 0)
    assert.equal(h.decide().do, 'evaluate', 'the next update is measured')
    assert.equal([...h.state.unsettled].length, 1)
    assert.ok(updateLine(h.state.updates, 'policy').byUpdate.has(update))
  })
  it('updates without a verdict are the same for any order of the topics', () => {
    for (const seed of [1, 7, 21, 33, 48]) {
      const topics = new Map<Topic, Logged[]>()
      for (const event of randomHistory(seeded(seed), 400).events) {
        const of = topics.get(topicOf(event)) ?? []
        of.push(decodeRecord({ ...encodeEvent(event), partition: 0, offset: of.length }))
        topics.set(topicOf(event), of)
      }
      const outcomes = new Set<string>()
      for (let run = 0; run < 12; run += 1) {
        const random = seeded(seed * 100 + run)
        const state = initialState('policy')
        const rest = [...topics.values()].map((records) => records.slice())
        while (rest.some(({ length }) => length > 0)) {
          const records = rest[random.below(rest.length)] ?? []
          for (const logged of records.splice(0, 1 + random.below(30))) evolve(state, logged)
        }
        outcomes.add(JSON.stringify([...state.unsettled].toSorted()))
      }
      assert.equal(outcomes.size, 1, `seed ${seed}: ${[...outcomes].join(' and ')}`)
    }
  })
})
