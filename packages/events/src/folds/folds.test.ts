import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sealedBatch } from '../../../../test/kit/updates.ts'
import { answerKey } from '../answer-key.ts'
import { encodeEvent, decodeRecord, written } from '../codec.ts'
import { requireBaseAdapter } from '../base.ts'
import type { Event, Logged, SessionClosed, TurnCaptured, TurnSampled, TurnsEvent } from '../records.ts'
import { foldScores, initialScores } from './scores.ts'
import { foldTurns, initialTurns, openTurns, shownOf, unshownBeside } from './turns.ts'
import { foldUpdates, initialUpdates, updateLine } from './updates.ts'
import { baseVersion, foldWeights, initialWeights, lineageDistance, nextVersion, weightLine } from './weights.ts'

let offset = 0
const logged = <E extends Event>(event: E): Logged<E> =>
  decodeRecord({ ...encodeEvent(event), partition: 0, offset: offset++ }) as Logged<E>

const turn = (id: string, changes: Partial<TurnCaptured> = {}): TurnCaptured => ({
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
  digest: `d${id}`,
  body: { from: null, prefix: 0, suffix: 0, written: written('{}'), blob: null, length: 2, sha256: '' },
  after: null,
  stateFrom: 0,
  prompt: { from: null, prefix: 0, ids: [1], length: 1 },
  sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
  tokens: 'exact',
  ids: [2],
  logprobs: [-0.5],
  text: written(`answer ${id}`),
  toolCallIds: [],
  answer: answerKey(`answer ${id}`, []),
  trainable: true,
  reason: null,
  offPrefix: false,
  engine: 'e',
  at: 1,
  firstTokenAt: 2,
  finishedAt: 3,
  ...changes,
})

const sampled = (id: string, changes: Partial<TurnCaptured> = {}): TurnSampled => ({
  ...turn(id, { candidate: 1, candidates: 2, ...changes }),
  type: 'TurnSampled',
})

describe('turns', () => {
  it('the first turn that continues an answer is its next state; a retry of it does not change that', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a')))
    foldTurns(state, logged(turn('b', { after: answerKey('answer a', []) })))
    foldTurns(state, logged(turn('c', { after: answerKey('answer a', []), digest: 'db' })))
    assert.equal(state.turns.get('s.a')?.next, 's.b')
    assert.equal(state.turns.get('s.c')?.follows, 's.a')
    assert.equal(state.turns.get('s.c')?.attempt, 2)
    assert.deepEqual(openTurns(state.sessions.get('s')), ['s.b', 's.c'])
  })

  it('a trimmed answer is found by the loose key; of equal answers the latest counts', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a', { answer: answerKey(' Yes.\n', []) })))
    foldTurns(state, logged(turn('b', { answer: answerKey('Yes.', []), after: answerKey('Yes.', []) })))
    foldTurns(state, logged(turn('c', { after: answerKey('Yes.', []) })))
    assert.equal(state.turns.get('s.a')?.next, 's.b')
    assert.equal(state.turns.get('s.b')?.next, 's.c')
  })

  it('a retry is not the next state of its first attempt, even if that gave the same answer as the previous turn', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a', { answer: answerKey('Yes.', []) })))
    foldTurns(state, logged(turn('b', { answer: answerKey('Yes.', []), after: answerKey('Yes.', []) })))
    foldTurns(state, logged(turn('c', { answer: answerKey('No.', []), after: answerKey('Yes.', []), digest: 'db' })))
    assert.equal(state.turns.get('s.c')?.follows, 's.a')
    assert.equal(state.turns.get('s.b')?.next, null)
  })

  it('a side turn is never a next state', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a')))
    foldTurns(state, logged(turn('b', { kind: 'side', after: answerKey('answer a', []) })))
    assert.equal(state.turns.get('s.a')?.next, null)
  })

  it('the first outcome of a session counts, for the shown turns before it, also where no turn is open', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a', { task: 't' })))
    foldTurns(state, logged(sampled('z', { group: 'a' })))
    foldTurns(state, logged({ type: 'SessionClosed', session: 's', open: ['s.a'], why: 'idle', at: 9 }))
    assert.deepEqual([state.sessions.get('s')?.closed, state.sessions.get('s')?.outcome], [true, null])
    const ending: SessionClosed = { type: 'SessionClosed', session: 's', open: [], why: 'client', at: 10 }
    const first = logged({ ...ending, outcome: -0.5, task: 'u' })
    assert.deepEqual(foldTurns(state, first), { counted: true })
    foldTurns(state, logged(turn('b')))
    assert.deepEqual(foldTurns(state, logged({ ...ending, outcome: 1, at: 11 })), { counted: false, why: 'not_open' })
    assert.deepEqual(
      ['s.a', 's.z', 's.b'].map((id) => [state.turns.get(id)?.task, state.turns.get(id)?.outcomeBy]),
      [
        ['t', first.id],
        [null, null],
        [null, null],
      ],
    )
    assert.deepEqual(state.sessions.get('s')?.outcome, { value: -0.5, record: first.id, task: 'u', at: 10 })
    const nobody = logged({ ...ending, session: 'nobody', outcome: 1, at: 11 })
    assert.deepEqual(foldTurns(state, nobody), { counted: false, why: 'not_open' })
  })

  it('a turn counts once; closing applies to the listed turns only and is final', () => {
    const state = initialTurns()
    const a = logged(turn('a'))
    assert.deepEqual(foldTurns(state, a), { counted: true })
    assert.deepEqual(foldTurns(state, a), { counted: false, why: 'repeat' })
    foldTurns(state, logged(turn('b')))
    assert.deepEqual(
      foldTurns(state, logged({ type: 'SessionClosed', session: 's', open: ['s.a'], why: 'idle', at: 9 })),
      { counted: true },
    )
    assert.equal(state.turns.get('s.b')?.closed, false)
    foldTurns(state, logged(turn('c', { after: answerKey('answer a', []) })))
    assert.equal(state.turns.get('s.a')?.next, null)
    assert.deepEqual(
      foldTurns(state, logged({ type: 'SessionClosed', session: 's', open: ['s.a'], why: 'idle', at: 10 })),
      { counted: false, why: 'not_open' },
    )
    const discarding = { type: 'SessionClosed', session: 's', open: [], why: 'client', discarded: true } as const
    assert.equal(state.turns.get('s.a')?.discardedBy, null)
    assert.deepEqual(
      foldTurns(state, logged({ ...discarding, open: [], at: 11 })),
      { counted: true },
      'closed before, discarded now',
    )
    assert.notEqual(state.turns.get('s.a')?.discardedBy, null)
    assert.deepEqual(foldTurns(state, logged({ ...discarding, open: [], at: 12 })), { counted: false, why: 'not_open' })
  })

  it('a deletion of a turn of the session counts once and sets `deleted` only', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a')))
    const before = { ...state.turns.get('s.a')! }
    const deletion = (session: string, id: string): Logged<TurnsEvent> =>
      logged({ type: 'ResponseDeleted', session, turn: id, at: 9 })
    for (const [session, id] of [
      ['s', 's.b'],
      ['r', 's.a'],
    ] as const)
      assert.deepEqual(foldTurns(state, deletion(session, id)), { counted: false, why: 'unknown_turn' })
    assert.deepEqual({ ...state.turns.get('s.a') }, before)
    assert.deepEqual(foldTurns(state, deletion('s', 's.a')), { counted: true })
    assert.deepEqual({ ...state.turns.get('s.a') }, { ...before, deleted: true })
    assert.deepEqual(foldTurns(state, deletion('s', 's.a')), { counted: false, why: 'repeat' })
  })

  it('feedback without a turn id applies to the last turn shown; an unknown turn and a repeat do not count', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a')))
    const feedback = {
      type: 'FeedbackGiven',
      id: 'f',
      session: 's',
      turn: null,
      value: -1,
      comment: null,
      subject: 'u',
      key: null,
      at: 5,
    } as const
    assert.deepEqual(foldTurns(state, logged(feedback)), { counted: true })
    assert.deepEqual(foldTurns(state, logged({ ...feedback, at: 6 })), { counted: false, why: 'repeat' })
    assert.deepEqual(foldTurns(state, logged({ ...feedback, id: 'g', turn: 's.z' })), {
      counted: false,
      why: 'unknown_turn',
    })
    assert.deepEqual(
      state.turns.get('s.a')?.feedback.map((f) => [f.id, f.value]),
      [['f', -1]],
    )
  })
})

describe('a candidate that was not shown', () => {
  it('has no next state and is none, even if its text equals the shown answer', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a', { candidates: 2 })))
    foldTurns(state, logged(turn('b', { after: answerKey('answer a', []) })))
    foldTurns(
      state,
      logged(sampled('x', { group: 'a', digest: 'da', answer: answerKey('answer a', []), finishedAt: 50 })),
    )
    foldTurns(state, logged(sampled('y', { group: 'b', digest: 'db', after: answerKey('answer a', []) })))
    foldTurns(state, logged(turn('c', { after: answerKey('answer a', []) })))
    const session = state.sessions.get('s')
    assert.equal(state.turns.get('s.a')?.next, 's.b')
    assert.deepEqual(
      ['x', 'y']
        .map((id) => state.turns.get(`s.${id}`))
        .map((one) => [one?.shown, one?.follows, one?.next, one?.attempt]),
      [
        [false, null, null, 1],
        [false, null, null, 1],
      ],
    )
    assert.equal(state.turns.get('s.c')?.follows, 's.a')
    assert.deepEqual(openTurns(session), ['s.b', 's.c'], 'it is not an open turn')
    assert.equal(session?.lastAt, 3, 'it does not count as activity of the session')
    assert.deepEqual(
      unshownBeside(session, session!.turns[0]!).map((one) => one.turn),
      ['s.x'],
    )
    assert.equal(shownOf(session, state.turns.get('s.x')!)?.turn, 's.a')
  })

  it('gets feedback with its id, but not feedback without a turn id', () => {
    const state = initialTurns()
    foldTurns(state, logged(turn('a', { candidates: 2 })))
    foldTurns(state, logged(sampled('x', { group: 'a' })))
    foldTurns(
      state,
      logged({
        type: 'FeedbackGiven',
        id: 'f',
        session: 's',
        turn: null,
        value: 1,
        comment: null,
        subject: 'u',
        key: null,
        at: 4,
      }),
    )
    foldTurns(
      state,
      logged({
        type: 'FeedbackGiven',
        id: 'g',
        session: 's',
        turn: 's.x',
        value: -1,
        comment: null,
        subject: 'u',
        key: null,
        at: 5,
      }),
    )
    assert.deepEqual(
      ['a', 'x'].map((id) => state.turns.get(`s.${id}`)?.feedback.map((one) => one.value)),
      [[1], [-1]],
    )
  })
})

describe('scores', () => {
  const score = {
    turn: 's.a',
    session: 's',
    policy: 'policy',
    version: 0,
    subject: 'u',
    verdicts: [],
    cause: 'c',
    at: 1,
  }
  it('the first score of a judge counts; feedback outranks it; the latest feedback counts', () => {
    const state = initialScores()
    const fold = (event: Event): unknown => foldScores(state, logged(event) as never)
    assert.deepEqual(fold({ type: 'TurnSkipped', reason: 'abstained', rank: null, ...score }), { counted: true })
    assert.deepEqual(
      fold({ type: 'TurnScored', reward: 1, judge: 'other', hint: null, hintJudge: null, rank: null, ...score }),
      { counted: false, why: 'outranked' },
    )
    assert.deepEqual(
      fold({
        type: 'ScoreRevised',
        reward: -1,
        judge: 'feedback',
        hint: null,
        hintJudge: null,
        rank: { at: 5, id: 'b' },
        ...score,
      }),
      { counted: true },
    )
    assert.deepEqual(
      fold({
        type: 'ScoreRevised',
        reward: 1,
        judge: 'feedback',
        hint: null,
        hintJudge: null,
        rank: { at: 5, id: 'a' },
        ...score,
      }),
      { counted: false, why: 'outranked' },
    )
    assert.deepEqual(
      fold({
        type: 'ScoreRevised',
        reward: 0.5,
        judge: 'feedback',
        hint: null,
        hintJudge: null,
        rank: { at: 6, id: 'a' },
        ...score,
      }),
      { counted: true },
    )
    assert.equal(state.turns.get('s.a')?.reward, 0.5)
    assert.equal(state.turns.get('s.a')?.revision, 2)
  })
})

const sealed = (prev: string, number: number): Event =>
  sealedBatch({
    prev,
    number,
    dropped: [{ turn: `t${number}`, reason: 'stale' }],
    baselines: [{ subject: 'u', value: number, count: 1 }],
  })

describe('updates', () => {
  it('a record with a stale prev is ignored; a gap throws log_gap', () => {
    const state = initialUpdates()
    const first = logged(sealed('', 1))
    const rival = logged(sealed('', 2))
    assert.deepEqual(foldUpdates(state, first as never), { counted: true })
    assert.deepEqual(foldUpdates(state, rival as never), { counted: false, why: 'stale' })
    assert.deepEqual(foldUpdates(state, first as never), { counted: false, why: 'stale' })
    assert.deepEqual(foldUpdates(state, logged(sealed(rival.id, 3)) as never), { counted: false, why: 'stale' })
    assert.throws(() => foldUpdates(state, logged(sealed('f'.repeat(64), 4)) as never), { code: 'log_gap' })
    assert.deepEqual([...updateLine(state, 'policy').spent], ['t1'])
    assert.equal(updateLine(state, 'policy').baselines.get('u')?.value, 1)
  })
})

describe('weights', () => {
  const started = {
    type: 'LineStarted',
    prev: '',
    policy: 'policy',
    mode: 'live',
    base: { name: 'm', sha256: 'x' },
    parent: null,
    settings: {},
    at: 1,
  } as const
  const version = (prev: string, number: number, parent: number): Event => ({
    type: 'VersionPublished',
    prev,
    policy: 'policy',
    number,
    update: `u${number}`,
    adapter: `a${number}`,
    adapterBytes: 1,
    state: 's',
    blobsAt: 1,
    parent,
    why: 'update',
    source: null,
    figures: {},
    at: 1,
  })
  it('a line starts once; publishing moves the head; a rollback may freeze learning; numbers are not reused', () => {
    const state = initialWeights()
    const fold = (event: Event): string => {
      const record = logged(event)
      foldWeights(state, record as never)
      return record.id
    }
    assert.deepEqual(foldWeights(state, logged(version('', 1, 0)) as never), { counted: false, why: 'no_line' })
    let tip = fold(started)
    assert.deepEqual(foldWeights(state, logged({ ...started, at: 2 }) as never), { counted: false, why: 'line_exists' })
    tip = fold(version(tip, 1, 0))
    tip = fold(version(tip, 2, 1))
    const line = weightLine(state, 'policy')
    assert.equal(line.head, 2)
    tip = fold({
      type: 'HeadMoved',
      prev: tip,
      policy: 'policy',
      from: 2,
      to: 1,
      who: 'w',
      why: 'y',
      request: 'r',
      freeze: true,
      at: 3,
    })
    assert.equal(line.head, 1)
    assert.equal(line.frozen, true)
    assert.equal(nextVersion(line), 3)
    tip = fold(version(tip, 3, 1))
    assert.equal(lineageDistance(line, 1, 3), 1)
    assert.equal(lineageDistance(line, 2, 3), null)
    assert.equal(lineageDistance(line, 0, 3), 2)
    assert.deepEqual(
      line.moves.map((m) => [m.from, m.to]),
      [
        [0, 1],
        [1, 2],
        [2, 1],
        [1, 3],
      ],
    )
  })
})

it('a line that started with an imported adapter has it as version 0; its branches have it as their base', () => {
  const state = initialWeights()
  const imported = {
    adapter: 'a',
    adapterBytes: 10,
    tensors: 't',
    tensorCount: 2,
    config: 'c',
    rank: 4,
    alpha: 10,
    targets: ['q_proj'],
    baseModel: '',
    source: 'mine',
  }
  const started = { type: 'LineStarted', prev: '', settings: {}, base: { name: 'm', sha256: 'x' }, at: 7 } as const
  const parent = { policy: 'policy', version: 3, adapter: 'b', state: 's' }
  foldWeights(state, logged({ ...started, policy: 'policy', mode: 'live', parent: null, imported }))
  foldWeights(state, logged({ ...started, policy: 'policy~branch', mode: 'replay', parent }))
  foldWeights(state, logged({ ...started, policy: 'plain', mode: 'live', parent: null }))
  const line = weightLine(state, 'policy')
  const { adapter, state: optimizer, blobsAt } = line.versions.get(0)!
  assert.deepEqual([adapter, optimizer, blobsAt], ['a', null, 7])
  assert.equal(weightLine(state, 'policy~branch').versions.get(0)!.adapter, 'b')
  assert.equal(baseVersion(state, 'policy')?.adapter, 'a')
  assert.equal(baseVersion(state, 'policy~branch')?.adapter, 'a')
  assert.equal(baseVersion(state, 'plain'), null)
  requireBaseAdapter(line, imported)
  for (const [where, tensors] of [
    [line, 'other'],
    [weightLine(state, 'plain'), 't'],
  ] as const)
    assert.throws(() => requireBaseAdapter(where, { tensors, source: 'mine' }), { code: 'other_base' })
  requireBaseAdapter(weightLine(state, 'new'), imported)
})
