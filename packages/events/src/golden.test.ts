/**
 * Golden bytes: every record version, written once and never regenerated. A build that reads or writes
 * them differently would rewrite history. `node packages/events/src/golden.test.ts --write NAME` adds a new one.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { decodeRecord, encodeEvent, FLOW, TOPICS, newestVersion, type Event, type RecordName } from './index.ts'

type Golden = { id: string; key: string; schema: string; payload: string; event: unknown }

const file = (name: RecordName, version = newestVersion(name)): URL =>
  new URL(`../../../test/kit/golden/avro/${name}.v${version}.json`, import.meta.url)
const toJson = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, v: unknown) =>
      v !== null && typeof v === 'object' && 'type' in v && v.type === 'Buffer' && 'data' in v
        ? { base64: Buffer.from(v.data as number[]).toString('base64') }
        : v,
    ),
  )
const fromJson = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(fromJson)
  if (value === null || typeof value !== 'object') return value
  if ('base64' in value) return Buffer.from(value.base64 as string, 'base64')
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, fromJson(v)]))
}

const written = { keyId: null, bytes: Buffer.from('né') }
const turn = {
  turn: 's.0f',
  session: 's',
  policy: 'policy',
  version: 3,
  adapter: 'ab',
  group: 'g',
  candidate: 0,
  candidates: 1,
  dialect: 'chat',
  kind: 'main',
  labelSource: 'prompt',
  userTurn: 'p-1',
  task: 't-1',
  agent: 'Claude Code',
  subject: 'u',
  key: null,
  digest: 'd',
  body: { from: 's.0e', prefix: 12, suffix: 3, written, blob: null, length: 99, sha256: 'c0' },
  after: { strict: 'k', loose: 'l' },
  stateFrom: 2,
  prompt: { from: null, prefix: 0, ids: [1, 300, 70000], length: 3 },
  sampling: { temperature: 0.7, topP: 1, topK: 0, seed: 42, maxTokens: 64, stop: ['\n'] },
  tokens: 'exact',
  ids: [5, 6],
  logprobs: [-0.5, -1.25],
  text: written,
  toolCallIds: ['call1'],
  answer: { strict: 'm', loose: 'n' },
  trainable: true,
  reason: null,
  offPrefix: false,
  engine: 'onnx',
  at: 1760000000000,
  firstTokenAt: 1760000000010,
  finishedAt: 1760000000100,
} as const
const score = {
  turn: 's.0f',
  session: 's',
  policy: 'policy',
  version: 3,
  subject: 'u',
  verdicts: [{ judge: 'j', value: null, note: 'abstained' }],
  cause: 'c',
  rank: { at: 5, id: 'f' },
  of: {
    record: 'ab',
    group: 'g',
    candidates: 4,
    shown: true,
    key: 'k',
    task: '',
    unusable: null,
    begunAt: 2,
    at: 3,
    finishedAt: 4,
    earlier: [1, 2],
  },
  at: 6,
}
const value = { reward: -1, judge: 'j', hint: written, hintJudge: 'h' }
const SAMPLES: Event[] = [
  { type: 'TurnCaptured', finish: 'stop', ...turn } as unknown as Event,
  { type: 'TurnAborted', why: 'client_gone', ...turn } as unknown as Event,
  { type: 'TurnSampled', finish: 'length', ...turn, candidate: 2, candidates: 4 } as unknown as Event,
  {
    type: 'FeedbackGiven',
    id: 'f',
    session: 's',
    turn: null,
    value: -0.5,
    comment: written,
    subject: 'u',
    key: 'k',
    at: 7,
  },
  {
    type: 'SessionClosed',
    session: 's',
    open: ['s.0f'],
    why: 'client',
    at: 8,
    discarded: false,
    outcome: -0.25,
    task: 't-1',
  },
  { type: 'SessionLinked', session: 's', parent: 'r', at: 8 },
  { type: 'ResponseDeleted', session: 's', turn: 's.0f', at: 8 },
  { type: 'TurnScored', ...value, ...score, rank: null },
  { type: 'TurnSkipped', reason: 'abstained', ...score, rank: null },
  { type: 'ScoreRevised', ...value, ...score },
  { type: 'EpisodeBegun', session: 's', policy: 'policy', task: 't-1', key: 'k', begunAt: 2, at: 6 },
  {
    type: 'EpisodeEnded',
    session: 's',
    policy: 'policy',
    closing: 'c',
    outcome: -0.5,
    endedAt: 8,
    task: 't-1',
    key: 'k',
    begunAt: 2,
    turns: ['s.0f', 's.10'],
    part: 0,
    parts: 2,
    at: 9,
  },
  {
    type: 'BatchSealed',
    prev: '',
    policy: 'policy',
    number: 1,
    parent: { version: 0, adapter: null, state: null },
    items: [
      {
        turn: 's.0f',
        record: 'r',
        session: 's',
        score: 'q',
        subject: 'u',
        version: 0,
        reward: 1,
        baseline: 0.25,
        advantage: 0.75,
        hint: null,
        turnScore: 1,
        outcome: 0.5,
        closing: 'c',
      },
    ],
    dropped: [{ turn: 's.0d', reason: 'stale' }],
    baselines: [{ subject: 'u', value: 0.5, count: 4 }],
    seed: 7,
    loss: 'hybrid',
    settings: { rank: 4 },
    at: 9,
  },
  {
    type: 'UpdateComputed',
    prev: 'p',
    policy: 'policy',
    batch: 'b',
    number: 1,
    adapter: 'a',
    adapterBytes: 10,
    state: 's',
    stateBytes: 20,
    blobsAt: 9,
    fingerprint: { engine: 'onnx', build: '1', isa: 'avx512', threads: 1, base: 'x' },
    figures: { loss: -0.5 },
    remote: {
      bound: 'd',
      model: 'm1',
      statePath: 'tinker://m1/weights/b1',
      adapterPath: 'tinker://m1/sampler_weights/b1',
      requests: [{ kind: 'save_weights', of: 'trained', seq: 6, sha256: 'e', response: null }],
      archive: 'f',
      tensors: 'g',
      tensorCount: 2,
      config: 'h',
      rows: [{ turn: 's.0f', tokens: 2 }],
      logprobs: { sha256: 'i', bytes: 8 },
      logprobsAt: 9,
      baseLogprobs: { sha256: 'j', bytes: 8 },
      baseAt: 8,
    },
    startedAt: 9,
    at: 10,
  },
  {
    type: 'TrainerBound',
    prev: 'p',
    policy: 'policy',
    epoch: 2,
    trainer: 't1',
    url: 'http://trainer:8000',
    capabilities: '{"product":"skyrl"}',
    base: { name: 'tiny', sha256: 'x' },
    baseModel: '/models/tiny',
    session: 'session-1',
    model: 'm1',
    reference: 'm0',
    parent: { version: 1, adapter: 'a', state: 's' },
    statePath: 'tinker://m0/weights/b1',
    rank: 8,
    seed: 4000000000,
    at: 10,
  },
  {
    type: 'TrainerScored',
    prev: 'p',
    policy: 'policy',
    batch: 'b',
    number: 1,
    bound: 'd',
    model: 'm1',
    pass: 0,
    requests: [{ kind: 'forward', of: 'reference', seq: 1, sha256: 'e', response: 'f' }],
    rows: [{ turn: 's.0f', tokens: 2 }],
    dropped: [{ turn: 's.0d', reason: 'bad_request' }],
    logprobs: { sha256: 'i', bytes: 8 },
    base: { sha256: 'j', bytes: 8 },
    teacher: null,
    blobsAt: 9,
    figures: { klParent: 0 },
    at: 10,
  },
  {
    type: 'UpdateRequested',
    prev: 'p',
    policy: 'policy',
    batch: 'b',
    number: 1,
    bound: 'd',
    model: 'm1',
    pass: 0,
    requests: [{ kind: 'optim_step', of: 'trained', seq: 3, sha256: 'e', response: null }],
    figures: { loss: -0.5 },
    at: 10,
  },
  { type: 'UpdateFailed', prev: 'p', policy: 'policy', batch: 'b', number: 1, reason: 'no_signal', at: 10 },
  {
    type: 'LineStarted',
    prev: '',
    policy: 'policy~again',
    mode: 'replay',
    base: { name: 'tiny', sha256: 'x' },
    parent: { policy: 'policy', version: 2, adapter: 'a', state: null },
    settings: { content: 1 },
    imported: {
      adapter: 'a',
      adapterBytes: 10,
      tensors: 't',
      tensorCount: 14,
      config: 'c',
      rank: 8,
      alpha: 16.5,
      targets: ['q_proj', 'v_proj'],
      baseModel: 'org/model',
      source: 'my-adapter',
    },
    at: 1,
  },
  {
    type: 'VersionPublished',
    prev: 'p',
    policy: 'policy',
    number: 2,
    update: 'u',
    adapter: 'a',
    adapterBytes: 10,
    state: 's',
    blobsAt: 9,
    parent: 1,
    why: 'promotion',
    source: { policy: 'policy~again', version: 4 },
    figures: { kl_parent: 0.01 },
    limits: { klParent: 0.03 },
    asked: { who: 'ann (k1)', why: 'shorter answers' },
    at: 11,
  },
  {
    type: 'VersionRejected',
    prev: 'p',
    policy: 'policy',
    update: 'u',
    adapter: 'a',
    parent: 1,
    reason: 'content',
    figures: { content: 0.5 },
    evidence: ['s.0f'],
    limits: { contentDrop: 0.04 },
    asked: null,
    at: 11,
  },
  {
    type: 'HeadMoved',
    prev: 'p',
    policy: 'policy',
    from: 2,
    to: 1,
    who: 'admin',
    why: 'worse',
    request: 'q',
    freeze: true,
    at: 12,
  },
  { type: 'LearningFrozen', prev: 'p', policy: 'policy', on: false, who: 'admin', why: '', request: 'q', at: 13 },
  { type: 'BlobChunk', sha256: 'ab', index: 0, count: 1, bytes: Buffer.from([0, 255]), at: 9 },
  { type: 'ReadersUpgraded', versions: { TurnCaptured: 3 }, who: 'setup', at: 14 },
  {
    type: 'SettingsChanged',
    policy: 'policy',
    section: 'training',
    settings: { 'training.batchSize': '32', 'training.loss': '"opd"' },
    judges: [],
    who: 'up',
    at: 15,
  },
  {
    type: 'StateCheckpointed',
    name: 'trainer.policy',
    version: 1,
    digest: 'd',
    rows: 2,
    positions: [{ topic: 'turns', partition: 3, next: 70000, record: 'r' }],
    file: 'f',
    bytes: 5_000_000_000,
    who: 'checkpoint',
    at: 16,
  },
  {
    type: 'LogCut',
    starts: [
      { topic: 'turns', partition: 3, start: 5_000_000_000, record: 'r' },
      { topic: 'scores', partition: 0, start: 0, record: null },
    ],
    archive: 's3://bucket/instar',
    manifest: 'm',
    checkpoints: ['c', 'd'],
    who: 'archive',
    at: 17,
  },
]

const toWrite = process.argv.includes('--write') ? process.argv.slice(process.argv.indexOf('--write') + 1) : []
for (const event of SAMPLES.filter((sample) => toWrite.includes(sample.type))) {
  if (existsSync(file(event.type))) throw new Error(`${event.type} has its golden bytes already`)
  const { id, key, schema, payload } = encodeEvent(event)
  writeFileSync(
    file(event.type),
    `${JSON.stringify({ id, key, schema, payload: Buffer.from(payload).toString('base64'), event: toJson(event) }, null, 2)}\n`,
  )
}

/** Defaults of fields that an older version does not have. */
const ADDED: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    ['TurnCaptured', 'TurnAborted', 'TurnSampled'].flatMap((name) => [
      [`${name}.v1`, { userTurn: null, task: null, agent: null }],
      [`${name}.v2`, { task: null, agent: null }],
      [`${name}.v3`, { agent: null }],
    ]),
  ),
  'SessionClosed.v1': { discarded: false, outcome: null, task: null },
  'SessionClosed.v2': { outcome: null, task: null },
  'TurnScored.v1': { of: null },
  'TurnSkipped.v1': { of: null },
  'ScoreRevised.v1': { of: null },
  'UpdateComputed.v1': { remote: null },
  'LineStarted.v1': { imported: null },
  'VersionPublished.v1': { limits: {}, asked: null },
  'VersionPublished.v2': { asked: null },
  'VersionRejected.v1': { limits: {}, asked: null },
  'VersionRejected.v2': { asked: null },
}

const withoutEpisode = (item: object): object => ({ ...item, turnScore: null, outcome: null, closing: null })

for (const topic of TOPICS) {
  for (const name of FLOW[topic].records) {
    for (let version = 1; version <= newestVersion(name); version += 1) {
      const current = version === newestVersion(name)
      it(`${name}.v${version} is ${current ? 'written to and ' : ''}read from its golden bytes`, () => {
        const golden = JSON.parse(readFileSync(file(name, version), 'utf8')) as Golden
        const event = fromJson(golden.event) as Event
        assert.equal(golden.schema, `${name}.v${version}`)
        if (current) {
          const encoded = encodeEvent(event)
          assert.equal(Buffer.from(encoded.payload).toString('base64'), golden.payload)
          assert.deepEqual([encoded.id, encoded.key, encoded.schema], [golden.id, golden.key, golden.schema])
        }
        const decoded = decodeRecord({
          topic,
          key: golden.key,
          schema: golden.schema,
          payload: Buffer.from(golden.payload, 'base64'),
          timestamp: 0,
          partition: 0,
          offset: 0,
        })
        const { items } = event as { items?: object[] }
        assert.deepEqual(toJson(decoded.event), {
          ...(toJson(event) as object),
          ...ADDED[golden.schema],
          ...(golden.schema === 'BatchSealed.v1' && items ? { items: items.map(withoutEpisode) } : {}),
        })
        assert.equal(decoded.id, golden.id)
      })
    }
  }
}
