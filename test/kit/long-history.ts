/** A long log of one line, as the services write it: for measurements of what reads a whole log. */
import { contentSha, encodeEvent, NEWEST, recordId, type BatchSealed, type Encoded } from '@instar/events'
import { blobChunks } from '@instar/log'
import { sealTurns, type ScoredTurn } from '../../services/trainer/src/core/replay.ts'
import { POLICY } from './histories.ts'
import { computed, published } from './projected-history.ts'
import { captured } from './scored-history.ts'

export const BATCH = 16
export const BEGAN_AT = 10
const SESSION = 8
const SETTINGS = { rules: 2, batchSize: BATCH, learningRate: 1 }
const BLOB_BYTES = 1000

type Options = {
  turns: number
  /** Each batch has an update with small blobs and a version; otherwise it has no signal. */
  updates?: boolean
}

/** Sessions of a few turns, each scored, in batches that the trainer's rules give. */
export function* longHistory({ turns, updates = false }: Options): Generator<Encoded & { id: string }> {
  const start = encodeEvent({
    type: 'LineStarted',
    prev: '',
    policy: POLICY,
    mode: 'live',
    base: { name: 'm', sha256: 'b' },
    parent: null,
    settings: {},
    at: 1,
  })
  yield start
  let head = { version: 0, adapter: null as string | null, state: null as string | null, record: start.id }
  const baselines = new Map<string, { value: number; count: number }>()
  let waiting: ScoredTurn[] = []
  let prev = ''
  for (let i = 0; i < turns; i += 1) {
    const at = BEGAN_AT + i
    const session = `s${Math.floor(i / SESSION)}`
    const turn = captured({
      session,
      messages: [{ role: 'user', content: `What is ${i}?` }],
      answer: `It is ${i}.`,
      at,
      name: i.toString(16).padStart(8, '0'),
      policy: POLICY,
      subject: `u${i % 997}`,
    })
    const record = encodeEvent(turn)
    yield record
    const reward = i % 3 === 0 ? -1 : 1
    const score = encodeEvent({
      type: 'TurnScored',
      turn: turn.turn,
      session,
      policy: POLICY,
      version: 0,
      subject: turn.subject,
      verdicts: [{ judge: 'j', value: reward, note: 'as it was said' }],
      cause: 'c',
      rank: null,
      at,
      reward,
      judge: 'j',
      hint: null,
      hintJudge: null,
    })
    yield score
    waiting.push({
      turn: turn.turn,
      record: record.id,
      session,
      group: turn.group,
      score: score.id,
      subject: turn.subject,
      key: turn.key,
      version: 0,
      reward,
      hint: null,
    })
    if (waiting.length < BATCH) continue
    const number = (i + 1) / BATCH
    const { record: before, ...parent } = head
    const sealed: BatchSealed = sealTurns(waiting, baselines, {
      prev,
      policy: POLICY,
      number,
      parent,
      seed: number,
      loss: 'hybrid',
      settings: SETTINGS,
      at,
    })
    waiting = []
    for (const { subject, ...mean } of sealed.baselines) baselines.set(subject, mean)
    const batch = encodeEvent(sealed)
    yield batch
    if (updates) {
      const blobs = ['adapter', 'state'].map((what) => Buffer.from(`${what} ${number} `.padEnd(BLOB_BYTES, 'x')))
      for (const bytes of blobs) yield* blobRecords(bytes, at)
      const [adapter, state] = blobs.map((bytes) => contentSha(bytes)) as [string, string]
      const update = computed(sealed, { adapter, state, blobsAt: at, startedAt: at, at })
      const updateRecord = encodeEvent(update)
      const version = encodeEvent(published(before, number, parent.version, update, { at }))
      yield* [updateRecord, version]
      head = { version: number, adapter, state, record: version.id }
      prev = updateRecord.id
      continue
    }
    const failed = encodeEvent({
      type: 'UpdateFailed',
      prev: batch.id,
      policy: POLICY,
      batch: batch.id,
      number,
      reason: 'no_signal',
      at,
    })
    yield failed
    prev = failed.id
  }
}

function* blobRecords(bytes: Uint8Array, at: number): Generator<Encoded & { id: string }> {
  for (const chunk of blobChunks(bytes, contentSha(bytes), at, NEWEST)) yield { ...chunk, id: recordId(chunk) }
}
