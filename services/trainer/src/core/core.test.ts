import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  answerKey,
  decodeRecord,
  encodeEvent,
  updateLine,
  weightLine,
  written,
  type Event,
  type Logged,
  type TurnCaptured,
  type TurnScored,
} from '@instar/events'
import { withHint } from '@instar/dialects'
import { auditBatches } from './audit.ts'
import { evolveAudit, initialAudit } from './audit-state.ts'
import { advantages, ALL_TURNS, RULES } from './baseline.ts'
import { sealBatch, type BatchSettings } from './batch.ts'
import { computed, decide } from './decide.ts'
import { changedSettings } from './replay-settings.ts'
import { evolve, initialState, type MemoryTrainer } from './state.ts'

const OPTIONS: BatchSettings = {
  batchSize: 2,
  batchMax: 2,
  groupWaitMs: 1000,
  keyShare: 0.5,
  subjectShare: 0.5,
  keyHeardMs: 1000,
  staleness: 1,
  taskEpisodes: 2,
  taskWaitMs: 1000,
  turnScoreWeight: 0.5,
  loss: 'hybrid',
  settings: { learningRate: 0.003, batchSize: 2, turnScoreWeight: 0.5, rules: RULES },
}

class History {
  readonly records: Logged[] = []
  readonly state: MemoryTrainer = initialState('policy')
  add(event: Event): Logged {
    const logged = decodeRecord({ ...encodeEvent(event), partition: 0, offset: this.records.length })
    this.records.push(logged)
    evolve(this.state, logged)
    return logged
  }
  tip(topic: 'updates' | 'weights'): string {
    return topic === 'updates'
      ? updateLine(this.state.updates, 'policy').chain.tip
      : weightLine(this.state.weights, 'policy').chain.tip
  }
  line(): void {
    this.add({
      type: 'LineStarted',
      prev: '',
      policy: 'policy',
      mode: 'live',
      base: { name: 'm', sha256: 'x' },
      parent: null,
      settings: {},
      at: 1,
    })
  }
  publish(number: number, parent: number): void {
    this.add({
      type: 'VersionPublished',
      prev: this.tip('weights'),
      policy: 'policy',
      number,
      update: `u${number}`,
      adapter: `a${number}`,
      adapterBytes: 1,
      state: `s${number}`,
      blobsAt: 5,
      parent,
      why: 'update',
      source: null,
      figures: {},
      at: 5,
    })
  }
  scored(
    id: string,
    reward: number,
    changes: Partial<TurnCaptured> = {},
    score: Partial<TurnScored> = {},
    shown = true,
  ): void {
    this.add(shown ? turn(id, changes) : { ...turn(id, changes), type: 'TurnSampled' })
    this.add({
      type: 'TurnScored',
      turn: `s.${id}`,
      session: 's',
      policy: 'policy',
      version: 0,
      subject: 'u',
      verdicts: [],
      cause: 'c',
      rank: null,
      at: 2,
      reward,
      judge: 'j',
      hint: null,
      hintJudge: null,
      ...score,
    })
  }
  act(): ReturnType<typeof decide> {
    const decision = decide(this.state, OPTIONS, 9)
    if (decision.do === 'append') this.add(decision.event)
    return decision
  }
}

const turn = (id: string, changes: Partial<TurnCaptured>): TurnCaptured => ({
  type: 'TurnCaptured',
  finish: 'stop',
  turn: `s.${id}`,
  session: 's',
  policy: 'policy',
  version: 0,
  adapter: null,
  group: id,
  candidate: 0,
  candidates: 1,
  dialect: 'chat',
  kind: 'main',
  labelSource: 'header',
  userTurn: null,
  subject: 'u',
  key: null,
  digest: id,
  body: { from: null, prefix: 0, suffix: 0, written: written('{}'), blob: null, length: 2, sha256: '' },
  after: null,
  stateFrom: 0,
  prompt: { from: null, prefix: 0, ids: [1], length: 1 },
  sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
  tokens: 'exact',
  ids: [2],
  logprobs: [-0.5],
  text: written(id),
  toolCallIds: [],
  answer: answerKey(id, []),
  trainable: true,
  reason: null,
  offPrefix: false,
  engine: 'e',
  at: 1,
  firstTokenAt: 2,
  finishedAt: 3,
  ...changes,
})

describe('the bound of a step', () => {
  it('is halved by each rejection of the gate in a row, at most four times, and whole again after an accepted one', () => {
    const bound = (rejectionsInARow: number, accepted = false): number | undefined => {
      const h = new History()
      h.line()
      for (let number = 1; number <= rejectionsInARow; number++)
        h.add({
          type: 'VersionRejected',
          prev: h.tip('weights'),
          policy: 'policy',
          update: `r${number}`,
          adapter: 'a',
          parent: 0,
          reason: 'kl_parent',
          figures: { kl_parent: 0.4 },
          evidence: [],
          at: 3,
        })
      if (accepted) h.publish(1, 0)
      h.scored('1', 1)
      h.scored('2', -1)
      const settings = { ...OPTIONS.settings, klParentMax: 0.08 }
      const decision = decide(h.state, { ...OPTIONS, settings }, 9)
      assert.ok(decision.do === 'append' && decision.event.type === 'BatchSealed')
      return decision.event.settings.klParentMax
    }
    assert.deepEqual(
      [0, 1, 2, 4, 9].map((rejectionsInARow) => bound(rejectionsInARow)),
      [0.08, 0.04, 0.02, 0.005, 0.005],
    )
    assert.equal(bound(3, true), 0.08)
  })
})

describe('advantages', () => {
  it('the first baseline of a subject is its mean, shrunk towards the mean of all turns with the weight of two turns', () => {
    const { items, after } = advantages(
      [
        { subject: 'a', key: null, group: '1', reward: 1 },
        { subject: 'a', key: null, group: '2', reward: 1 },
        { subject: 'b', key: null, group: '3', reward: -1 },
      ],
      new Map(),
    )
    assert.deepEqual(
      items.map((i) => i.baseline),
      [0.5, 0.5, -1 / 3],
    )
    assert.deepEqual(
      items.map((i) => i.advantage),
      [0.5, 0.5, -1 + 1 / 3],
    )
    const a = after.find((b) => b.subject === 'a')
    assert.ok(Math.abs((a?.value ?? 0) - (0.9 * (0.9 * 0.5 + 0.1) + 0.1)) < 1e-15)
    assert.equal(after.find((b) => b.subject === ALL_TURNS)?.count, 3)
  })
  it('a known subject has its own baseline; candidates of one request have their group mean', () => {
    const before = new Map([['a', { value: 0.25, count: 9 }]])
    assert.deepEqual(advantages([{ subject: 'a', key: null, group: '1', reward: 1 }], before).items, [
      { baseline: 0.25, advantage: 0.75 },
    ])
    assert.deepEqual(
      advantages(
        [
          { subject: 'a', key: null, group: 'g', reward: 1 },
          { subject: 'a', key: null, group: 'g', reward: 0 },
        ],
        before,
      ).items.map((i) => i.advantage),
      [0.5, -0.5],
    )
  })
})

describe('decide', () => {
  it('waits for a line and for turns, then seals the newest in log order with all values that the update needs', () => {
    const h = new History()
    assert.deepEqual(h.act(), { do: 'wait', why: 'no_line' })
    h.line()
    h.scored('a', 1)
    assert.deepEqual(h.act(), { do: 'wait', why: 'turns' })
    h.scored('b', -1, {}, { hint: written('Be brief.') })
    h.scored('c', 1)
    const decision = h.act()
    assert.equal(decision.do, 'append')
    const batch = updateLine(h.state.updates, 'policy').batches[0]
    assert.deepEqual(
      batch?.sealed.items.map((i) => [i.turn, i.reward, i.hint ? 'hint' : null]),
      [
        ['s.b', -1, 'hint'],
        ['s.c', 1, null],
      ],
    )
    assert.deepEqual(structuredClone(batch?.sealed.parent), { version: 0, adapter: null, state: null })
    assert.equal(batch?.sealed.items[0]?.record, h.records.filter((r) => r.event.type === 'TurnCaptured')[1]?.id)
    assert.deepEqual([...h.state.pending], [['0 ', new Set(['s.a'])]])
    assert.equal(h.act().do, 'compute')
  })

  it('one batch at a time: the next waits for the verdict, a failed one is settled', () => {
    const h = new History()
    h.line()
    for (const id of ['a', 'b', 'c', 'd']) h.scored(id, id < 'c' ? 1 : -1)
    h.act()
    const batch = updateLine(h.state.updates, 'policy').batches[0]
    const result = {
      adapter: 'x',
      adapterBytes: 1,
      state: 'y',
      stateBytes: 1,
      blobsAt: 1,
      fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
      figures: {},
      startedAt: 1,
    }
    const update = computed(h.state, batch?.id ?? '', result, 5)
    assert.ok(update)
    const { id } = h.add(update)
    assert.equal(computed(h.state, batch?.id ?? '', result, 5), null)
    assert.deepEqual(h.act(), { do: 'wait', why: 'verdict' })
    h.add({
      type: 'VersionRejected',
      prev: h.tip('weights'),
      policy: 'policy',
      update: id,
      adapter: 'x',
      parent: 0,
      reason: 'content',
      figures: {},
      evidence: [],
      at: 6,
    })
    assert.equal(h.act().do, 'append')
    assert.equal(updateLine(h.state.updates, 'policy').batches.length, 2)
  })

  it('a standby trainer seals and computes nothing; when assigned, it continues with the sealed batch', () => {
    const h = new History()
    h.line()
    h.scored('a', 1)
    h.scored('b', -1)
    const standby = { do: 'wait', why: 'standby' }
    assert.deepEqual(decide(h.state, OPTIONS, 9, false), standby)
    h.act()
    assert.deepEqual(decide(h.state, OPTIONS, 9, false), standby)
    const taken = decide(h.state, OPTIONS, 9, true)
    assert.ok(taken.do === 'compute' && taken.batch === updateLine(h.state.updates, 'policy').batches[0]?.id)
  })

  it('a frozen line seals nothing; a batch without signal fails with the reason no_signal', () => {
    const h = new History()
    h.line()
    h.scored('a', 0)
    h.scored('b', 0)
    h.add({
      type: 'LearningFrozen',
      prev: h.tip('weights'),
      policy: 'policy',
      on: true,
      who: 'w',
      why: '',
      request: 'r',
      at: 3,
    })
    assert.deepEqual(h.act(), { do: 'wait', why: 'frozen' })
    h.add({
      type: 'LearningFrozen',
      prev: h.tip('weights'),
      policy: 'policy',
      on: false,
      who: 'w',
      why: '',
      request: 'q',
      at: 4,
    })
    h.act()
    h.act()
    assert.equal(updateLine(h.state.updates, 'policy').batches[0]?.reason, 'no_signal')
  })

  it('stale turns and turns of versions off the lineage are recorded as dropped in the batch; of several versions the oldest stands first', () => {
    const h = new History()
    h.line()
    h.publish(1, 0)
    h.publish(2, 1)
    h.scored('old', 1, { version: 0 })
    h.scored('side', 1, { trainable: false, reason: 'side' })
    h.scored('a', 1, { version: 2 })
    h.scored('b', -1, { version: 1 })
    h.act()
    const sealed = updateLine(h.state.updates, 'policy').batches[0]?.sealed
    assert.deepEqual(structuredClone(sealed?.dropped), [
      { turn: 's.old', reason: 'stale' },
      { turn: 's.side', reason: 'side' },
    ])
    assert.deepEqual(
      sealed?.items.map((i) => i.turn),
      ['s.b', 's.a'],
    )
    assert.equal(sealed?.parent.adapter, 'a2')
    assert.equal(h.state.pending.size, 0)
  })

  it('a batch takes the newest turns, as many as are pending from batchSize to batchMax', () => {
    const h = new History()
    h.line()
    const ids = Array.from({ length: 9 }, (_, i) => `t${i}`)
    for (const id of ids.slice(0, 3)) h.scored(id, 1)
    const sealed = (batchMax: number): string[] | undefined =>
      sealBatch(h.state, { ...OPTIONS, batchSize: 2, batchMax }, 9)?.items.map(({ turn }) => turn)
    assert.deepEqual(sealed(6), ['s.t0', 's.t1', 's.t2'])
    for (const id of ids.slice(3)) h.scored(id, 1)
    assert.deepEqual(
      sealed(6),
      ids.slice(3).map((id) => `s.${id}`),
    )
    assert.deepEqual(sealed(1), ['s.t7', 's.t8'])
    assert.equal(sealed(99)?.length, 9)
  })

  it('a batch that grows keeps the shares of its own size, and one that waits for candidates does not grow by them', () => {
    const h = new History()
    h.line()
    for (let i = 0; i < 12; i += 1) h.scored(`a${i}`, 1, { key: 'a' })
    for (let i = 0; i < 3; i += 1) h.scored(`b${i}`, 1, { key: 'b' })
    const settings = { ...OPTIONS, batchSize: 4, batchMax: 12, keyShare: 0.5, keyHeardMs: 1e6 }
    const keys = sealBatch(h.state, settings, 9)
      ?.items.map(({ turn }) => turn.slice(2, 3))
      .sort()
    assert.equal(keys?.join(''), 'aaaabbb', 'of seven turns an equal share is four')
    const waiting = new History()
    waiting.line()
    for (const id of ['a', 'b', 'c']) waiting.scored(id, 1)
    waiting.scored('g', 1, { group: 'g', candidates: 3 })
    assert.equal(sealBatch(waiting.state, { ...OPTIONS, batchSize: 2, batchMax: 8 }, 9)?.items.length, 3)
  })

  it('the candidates of a request wait for each other, at most groupWaitMs, and other turns go before them', () => {
    const h = new History()
    h.line()
    const group = { group: 'a', candidates: 3 }
    h.scored('a', 1, group)
    h.scored('b', -1)
    assert.deepEqual(h.act(), { do: 'wait', why: 'turns' })
    h.scored('x', -1, { ...group, candidate: 1 }, {}, false)
    assert.deepEqual(h.act(), { do: 'wait', why: 'turns' }, 'one candidate is missing')
    h.scored('y', 1, { ...group, candidate: 2 }, {}, false)
    assert.equal(h.act().do, 'append')
    const batch = updateLine(h.state.updates, 'policy').batches[0]
    assert.deepEqual(
      batch?.sealed.items.map(({ turn, advantage }) => [turn, advantage.toFixed(3)]),
      [
        ['s.a', '0.667'],
        ['s.x', '-1.333'],
        ['s.y', '0.667'],
      ],
      'all candidates, beyond the size of a batch',
    )

    const late = new History()
    late.line()
    late.scored('a', 1, group)
    late.scored('x', -1, { ...group, candidate: 1 }, {}, false)
    assert.deepEqual(decide(late.state, OPTIONS, 2 + OPTIONS.groupWaitMs - 1), { do: 'wait', why: 'turns' })
    assert.equal(decide(late.state, OPTIONS, 2 + OPTIONS.groupWaitMs).do, 'append')
  })

  it('pending turns of a discarded session are dropped, in any order of reading the topics', () => {
    const h = new History()
    h.line()
    h.scored('a', 1)
    h.add({ type: 'SessionClosed', session: 's', open: [], why: 'client', at: 5, discarded: true })
    h.scored('b', 1)
    h.scored('c', -1)
    const again = initialState('policy')
    for (const topic of ['scores', 'weights', 'turns'])
      for (const record of h.records) if (record.topic === topic) evolve(again, record)
    assert.deepEqual(again.pending, h.state.pending)
    h.act()
    const sealed = updateLine(h.state.updates, 'policy').batches[0]?.sealed
    assert.deepEqual(
      [sealed?.items.map(({ turn }) => turn), structuredClone(sealed?.dropped)],
      [['s.b', 's.c'], [{ turn: 's.a', reason: 'discarded' }]],
    )
  })

  it('the pending turns do not depend on the order in which topics are read', () => {
    const h = new History()
    h.line()
    for (const id of ['a', 'b', 'c']) h.scored(id, 1)
    h.act()
    h.add({
      type: 'ScoreRevised',
      turn: 's.a',
      session: 's',
      policy: 'policy',
      version: 0,
      subject: 'u',
      verdicts: [],
      cause: 'f',
      rank: { at: 7, id: 'f' },
      at: 7,
      reward: -1,
      judge: 'feedback',
      hint: null,
      hintJudge: null,
    })
    const again = initialState('policy')
    for (const topic of ['updates', 'weights', 'turns', 'scores'])
      for (const record of h.records) if (record.topic === topic) evolve(again, record)
    assert.deepEqual([...again.pending], [...h.state.pending])
    assert.deepEqual([...again.pending], [['0 ', new Set(['s.a'])]])
  })
})

describe('audit', () => {
  const history = (): History => {
    const h = new History()
    h.line()
    for (const id of ['a', 'b', 'c', 'd']) h.scored(id, id === 'd' ? -1 : 1)
    h.act()
    return h
  }
  const audit = (records: readonly Logged[]): (string | null)[] => {
    const state = initialAudit('policy')
    for (const record of records) evolveAudit(state, record)
    return [...auditBatches(state)].map((a) => a.difference && `${a.difference.topic}: ${a.difference.what}`)
  }
  it('a batch that follows from its records passes', () => assert.deepEqual(audit(history().records), [null]))
  it('names the turn whose record changed, and the score that is missing', () => {
    const { records } = history()
    const changed = records.map((r) =>
      r.event.type === 'TurnCaptured' && r.event.turn === 's.c' ? { ...r, id: 'other' } : r,
    )
    assert.deepEqual(audit(changed), ['turns: turn s.c is now record other'])
    assert.deepEqual(audit(records.filter((r) => !(r.event.type === 'TurnScored' && r.event.turn === 's.d'))), [
      'scores: the score of turn s.d that batch 1 names is not on the log',
    ])
  })
  it('a wrong advantage and a wrong reward are found', () => {
    const { records } = history()
    const tampered = (change: (item: { reward: number; advantage: number }) => void): Logged[] =>
      records.map((r) => {
        if (r.event.type !== 'BatchSealed') return r
        const event = structuredClone(r.event)
        change(event.items[1] as { reward: number; advantage: number })
        return { ...r, event }
      })
    assert.deepEqual(
      audit(
        tampered((item) => {
          item.advantage += 1e-9
        }),
      ),
      ['updates: advantage of turn s.d'],
    )
    assert.deepEqual(
      audit(
        tampered((item) => {
          item.reward = 1
        }),
      ),
      ['updates: reward of turn s.d'],
    )
  })
})

it('the hint is a new line at the end of the last user message', () => {
  const messages = [
    { role: 'system', content: 's' },
    { role: 'user', content: 'q' },
    { role: 'assistant', content: 'a' },
    { role: 'user', content: [{ type: 'text', text: 'r' }] },
    { role: 'tool', content: 't' },
  ]
  assert.deepEqual(withHint(messages, 'h')[3]?.content, [
    { type: 'text', text: 'r' },
    { type: 'text', text: '\nh' },
  ])
  assert.equal(withHint(messages.slice(0, 2), 'h')[1]?.content, 'q\nh')
  assert.equal(messages[1]?.content, 'q')
})

it('--set changes named settings only', () => {
  assert.deepEqual(changedSettings({ learningRate: 1, rank: 4 }, { lr: '0.5', loss: 'binary' }), {
    settings: { learningRate: 0.5, rank: 4, rules: RULES },
    loss: 'binary',
  })
  assert.throws(() => changedSettings({ learningRate: 1, rules: 1 }, { rules: '1' }), {
    code: 'bad_request',
    message:
      /the settings are adamEpsilon, klBaseMax, klParentMax, learningRate, logRatioMax, miniBatches, opdContrast, opdForward, opdOverBatch, referenceTopK, rehearsalRows, rehearsalWeight, sampledTokens, turnFactor, turnScoreWeight, turnTokensMax, weightShare, loss/,
  })
  assert.throws(() => changedSettings({ learningRate: 1 }, { speed: '1' }), { code: 'bad_request' })
  assert.throws(() => changedSettings({ learningRate: 1 }, { lr: 'fast' }), { code: 'bad_request' })
  const recorded = {
    learningRate: 1,
    rank: 4,
    alpha: 8,
    epochs: 3,
    batchSize: 16,
    microBatchTokens: 256,
    beta1: 0.9,
    maxGradNorm: 1,
    klWeight: 0.1,
  }
  for (const [name, value] of Object.entries({
    lr: '-1',
    rank: '2.5',
    alpha: '0',
    epochs: '0',
    batchSize: '1.5',
    microBatchTokens: '0',
    beta1: '1',
    maxGradNorm: '-1',
    klWeight: '-0.1',
  })) {
    assert.throws(
      () => changedSettings(recorded, { [name]: value }),
      { code: 'bad_request', message: new RegExp(`^--set ${name}=${value}: ${name} must be`) },
      name,
    )
  }
  assert.throws(() => changedSettings(recorded, { batchSize: '513' }), {
    code: 'bad_request',
    message: /a whole number from 1 to 512/,
  })
  assert.throws(() => changedSettings(recorded, { rehearsalRows: '65' }), { message: /a whole number from 0 to 64/ })
  assert.throws(() => changedSettings({ ...recorded, rehearsalPrompts: 7 }, { rehearsalPrompts: '8' }), {
    message: /unknown setting/,
  })
  assert.deepEqual(changedSettings(recorded, { klWeight: '0', rank: '2' }).settings, {
    ...recorded,
    klWeight: 0,
    rank: 2,
    rules: RULES,
  })
  assert.throws(() => changedSettings(recorded, { rank: '2' }, 3), {
    code: 'bad_request',
    message: /the adapter of version 3 cannot be changed/,
  })
})
