/** A small hand-written history, and a long generated one, as events. */
import { encodeEvent, written } from '@instar/events/codec'
import { answerKey } from '@instar/events/answer-key'
import { contentSha, turnId } from '@instar/events/ids'
import type {
  BatchSealed,
  Event,
  HeadMoved,
  LineStarted,
  TurnCaptured,
  TurnScored,
  UpdateComputed,
  VersionPublished,
} from '@instar/events/records'
import type { Append } from '@instar/log/port'

/** 2026-01-01T00:00:00Z */
export const T0 = 1_767_225_600_000

/** Tokens of the passes of each update. */
const UPDATE_TOKENS = {
  forwardPromptTokens: 400,
  forwardResponseTokens: 40,
  teacherTokens: 50,
  backwardPromptTokens: 200,
  backwardResponseTokens: 20,
}

export const sha = (name: string): string => contentSha(Buffer.from(name))
const hex = (name: string): string => sha(name).slice(0, 32)

type TurnChoice = Partial<TurnCaptured> & {
  session: string
  name: string
  says: string
  /** The answer on which its request ends. */ to?: string
}

export const turn = ({ session, name, says, to, ...rest }: TurnChoice): TurnCaptured => {
  const at = rest.at ?? T0
  const request = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: name }] }))
  return {
    type: 'TurnCaptured',
    finish: 'stop',
    turn: turnId(session, hex(name)),
    session,
    policy: 'policy',
    version: 0,
    adapter: null,
    group: `group-${name}`,
    candidate: 0,
    candidates: 1,
    dialect: 'chat',
    kind: 'main',
    labelSource: 'header',
    userTurn: null,
    subject: `subject-${session}`,
    key: null,
    digest: sha(`request ${name}`),
    body: {
      from: null,
      prefix: 0,
      suffix: 0,
      written: { keyId: null, bytes: request },
      blob: null,
      length: request.length,
      sha256: contentSha(request),
    },
    after: to === undefined ? null : answerKey(to, []),
    stateFrom: 1,
    prompt: { from: null, prefix: 0, ids: [1, 2, 3], length: 3 },
    sampling: { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 64, stop: [] },
    tokens: 'exact',
    ids: [4, 5],
    logprobs: [-0.5, -0.25],
    text: written(says),
    toolCallIds: [],
    answer: answerKey(says, []),
    trainable: true,
    reason: null,
    offPrefix: false,
    engine: 'wasm',
    ...rest,
    at,
    firstTokenAt: rest.firstTokenAt ?? at + 20,
    finishedAt: rest.finishedAt ?? at + 120,
  }
}

export const scored = (of: TurnCaptured, reward: number, rest: Partial<TurnScored> = {}): TurnScored => ({
  type: 'TurnScored',
  turn: of.turn,
  session: of.session,
  policy: of.policy,
  version: of.version,
  subject: of.subject,
  verdicts: [{ judge: 'signals', value: reward, note: '' }],
  cause: of.turn,
  rank: null,
  at: of.finishedAt + 1000,
  reward,
  judge: 'signals',
  hint: null,
  hintJudge: null,
  ...rest,
})

export const lineStarted = (policy = 'policy', rest: Partial<LineStarted> = {}): LineStarted => ({
  type: 'LineStarted',
  prev: '',
  policy,
  mode: 'live',
  base: { name: 'tiny', sha256: sha('base') },
  parent: null,
  settings: { batchTurns: 2 },
  at: T0,
  ...rest,
})

export const sealed = (
  prev: string,
  number: number,
  parent: BatchSealed['parent'],
  items: readonly { of: TurnCaptured; score: TurnScored }[],
  rest: Partial<BatchSealed> = {},
): BatchSealed => ({
  type: 'BatchSealed',
  prev,
  policy: 'policy',
  number,
  parent,
  items: items.map(({ of, score }) => ({
    turn: of.turn,
    record: encodeEvent(of).id,
    session: of.session,
    score: encodeEvent(score).id,
    subject: of.subject,
    version: of.version,
    reward: score.reward,
    baseline: 0,
    advantage: score.reward,
    hint: score.hint,
  })),
  dropped: [],
  baselines: [],
  seed: 7,
  loss: 'hybrid',
  settings: { learningRate: 0.01 },
  at: T0 + 10_000 + number,
  ...rest,
})

export const computed = (batch: BatchSealed, rest: Partial<UpdateComputed> = {}): UpdateComputed => {
  const { id } = encodeEvent(batch)
  return {
    type: 'UpdateComputed',
    prev: id,
    policy: batch.policy,
    batch: id,
    number: batch.number,
    adapter: sha(`adapter ${id}`),
    adapterBytes: 1000,
    state: sha(`state ${id}`),
    stateBytes: 2000,
    blobsAt: batch.at,
    fingerprint: { engine: 'wasm', build: '1', isa: 'avx2', threads: 1, base: sha('base') },
    figures: { loss: 0.5, policyLoss: 0.25, klLoss: 0.125, gradNorm: 1, ...UPDATE_TOKENS },
    startedAt: batch.at + 1,
    at: batch.at + 400,
    ...rest,
  }
}

export const published = (
  prev: string,
  number: number,
  parent: number,
  update: UpdateComputed,
  rest: Partial<VersionPublished> = {},
): VersionPublished => ({
  type: 'VersionPublished',
  prev,
  policy: update.policy,
  number,
  update: encodeEvent(update).id,
  adapter: update.adapter,
  adapterBytes: update.adapterBytes,
  state: update.state,
  blobsAt: update.blobsAt,
  parent,
  why: 'update',
  source: null,
  figures: { kl_parent: 0.01, kl_base: 0.02 },
  at: update.at + 100,
  ...rest,
})

export const headMoved = (
  prev: string,
  from: number,
  to: number,
  at: number,
  rest: Partial<HeadMoved> = {},
): HeadMoved => ({
  type: 'HeadMoved',
  prev,
  policy: 'policy',
  from,
  to,
  who: 'admin',
  why: 'worse',
  request: `request-${at}`,
  freeze: true,
  at,
  ...rest,
})

export const idOf = (event: Event): string => encodeEvent(event).id

export const records = (events: readonly Event[]): Append[] =>
  events.map((event) => {
    const { topic, key, schema, payload, timestamp } = encodeEvent(event)
    return { topic, key, schema, payload, timestamp }
  })

/**
 * Two sessions, one reply that becomes a next state, one closed session, feedback with a higher rank, one skip, two
 * versions, a rollback, and five records that do not count.
 */
export const smallHistory = () => {
  const a1 = turn({ session: 'sa', name: 'a1', says: 'Hello.' })
  const a2 = turn({
    session: 'sa',
    name: 'a2',
    says: 'Sorry!',
    to: 'Hello.',
    at: T0 + 5000,
    version: 0,
    userTurn: 'prompt-2',
    agent: 'Codex',
  })
  const b1 = turn({
    session: 'sb',
    name: 'b1',
    says: 'Yes',
    at: T0 + 6000,
    version: 1,
    adapter: sha('x'),
    firstTokenAt: T0 + 6040,
    finishedAt: T0 + 6240,
  })
  const b2: Event = {
    ...turn({
      session: 'sb',
      name: 'b2',
      says: 'No',
      at: T0 + 7000,
      version: 1,
      kind: 'side',
      trainable: false,
      reason: 'side turn',
    }),
    type: 'TurnAborted',
    why: 'client_gone',
  }
  const feedback: Event = {
    type: 'FeedbackGiven',
    id: 'f1',
    session: 'sa',
    turn: null,
    value: 1,
    comment: written('private words'),
    subject: 'subject-sa',
    key: null,
    at: T0 + 8000,
  }
  const lost: Event = { ...feedback, id: 'f2', turn: 'sa.unknown' }
  const closed: Event = { type: 'SessionClosed', session: 'sb', open: [b1.turn], why: 'idle', at: T0 + 90_000 }
  const s1 = scored(a1, -1, { hint: written('Answer in one plain paragraph.\u0000'), hintJudge: 'rules' })
  const s1late = scored(a1, 1, { at: T0 + 9999 })
  const s2 = scored(a2, 0.5)
  const s2revised: Event = {
    ...scored(a2, 1, { judge: 'feedback', cause: 'f1', rank: { at: T0 + 8000, id: 'f1' } }),
    type: 'ScoreRevised',
  }
  const { reward: _, judge: __, hint: ___, hintJudge: ____, ...skipFacts } = scored(b1, 0)
  const skip: Event = { ...skipFacts, type: 'TurnSkipped', reason: 'judge abstained' }
  const batch1 = sealed(
    '',
    1,
    { version: 0, adapter: null, state: null },
    [
      { of: a1, score: s1 },
      { of: a2, score: s2 },
    ],
    { dropped: [{ turn: b2.turn, reason: 'side turn' }] },
  )
  const update1 = computed(batch1)
  const batch2 = sealed(idOf(update1), 2, { version: 1, adapter: update1.adapter, state: update1.state }, [])
  const failed: Event = {
    type: 'UpdateFailed',
    prev: idOf(batch2),
    policy: 'policy',
    batch: idOf(batch2),
    number: 2,
    reason: 'no signal',
    at: T0 + 12_000,
  }
  const batch3 = sealed(idOf(failed), 3, { version: 1, adapter: update1.adapter, state: update1.state }, [])
  const update3 = computed(batch3)
  const start = lineStarted()
  const v1 = published(idOf(start), 1, 0, update1)
  const v2 = published(idOf(v1), 2, 1, update3, { at: T0 + 20_000 })
  const stale = published(idOf(start), 2, 0, update1, { at: T0 + 20_001 })
  const back = headMoved(idOf(v2), 2, 1, T0 + 30_000)
  const thaw: Event = {
    type: 'LearningFrozen',
    prev: idOf(back),
    policy: 'policy',
    on: false,
    who: 'admin',
    why: '',
    request: 'thaw-1',
    at: T0 + 31_000,
  }
  const branch = lineStarted('policy~again', {
    mode: 'replay',
    parent: { policy: 'policy', version: 0, adapter: null, state: null },
    at: T0 + 40_000,
  })
  const branchScore = scored({ ...a1, policy: 'policy~again' }, 0.25)
  const events: Event[] = [
    a1,
    a2,
    a1,
    b1,
    b2,
    feedback,
    lost,
    closed,
    closed,
    s1,
    s1late,
    s2,
    s2revised,
    skip,
    branchScore,
    batch1,
    update1,
    batch2,
    failed,
    batch3,
    update3,
    start,
    v1,
    v2,
    stale,
    back,
    thaw,
    branch,
  ]
  return { a1, a2, b1, b2, s1, s2, update1, update3, events }
}

/**
 * `count` turns in sessions of four, each scored (one in ten twice), with a batch for every 16 of them. About 3.1
 * events per turn.
 */
export const longHistory = function* (count: number): Generator<Event> {
  let [weightsTip, updatesTip, version, spoken] = ['', '', 0, '']
  const start = lineStarted()
  yield start
  weightsTip = idOf(start)
  let batch: { of: TurnCaptured; score: TurnScored }[] = []
  for (let i = 0; i < count; i++) {
    const session = `s${Math.floor(i / 4)}`
    const says = `This is answer ${i}, in a sentence of usual length.`
    const of = turn({
      session,
      name: `n${i}`,
      says,
      at: T0 + i * 1000,
      version,
      ...(i % 4 === 0 ? {} : { to: spoken }),
    })
    spoken = says
    yield of
    if (i % 4 === 3) yield { type: 'SessionClosed', session, open: [of.turn], why: 'idle', at: T0 + i * 1000 + 900 }
    const score = scored(of, (i % 21) / 10 - 1, {
      hint: i % 3 === 0 ? written('Answer in one plain paragraph of two sentences.') : null,
    })
    yield score
    if (i % 10 === 0) {
      yield {
        type: 'FeedbackGiven',
        id: `f${i}`,
        session,
        turn: of.turn,
        value: 1,
        comment: null,
        subject: of.subject,
        key: null,
        at: score.at + 1,
      }
      yield {
        ...score,
        type: 'ScoreRevised',
        judge: 'feedback',
        reward: 1,
        rank: { at: score.at + 1, id: `f${i}` },
        at: score.at + 2,
      }
    }
    batch.push({ of, score })
    if (batch.length < 16) continue
    const seal = sealed(updatesTip, version + 1, { version, adapter: null, state: null }, batch)
    const update = computed(seal)
    const next = published(weightsTip, version + 1, version, update)
    yield* [seal, update, next]
    ;[updatesTip, weightsTip, version, batch] = [idOf(update), idOf(next), version + 1, []]
  }
}
