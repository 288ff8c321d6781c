/**
 * Generates a long log like that of the services: concurrent conversations, a score for each turn after the next one, a
 * batch, an update and a version for every 16 scores.
 */
import {
  encodeEvent,
  type BatchItem,
  type Encoded,
  type Event,
  type LineStarted,
  type TurnCaptured,
} from '@instar/events'
import { computed, headMoved, lineStarted, published, scored, T0, turn } from '../../test/kit/projected-history.ts'

const CONVERSATIONS = 200
const TURNS_EACH = 10
const BATCH = 16

/** `last`: the turn that has no score yet, with the id of its record and its text. */
type Conversation = {
  session: string
  last: { turn: TurnCaptured; record: string; text: string } | null
  turns: number
}

export type Records = Generator<Encoded & { id: string }>

/**
 * `count`: turns; there are about three records for two turns. `base`: the model with which the services are started.
 * At the end the head is rolled back to the base, so that a gateway loads no adapter.
 */
export const longLog = function* (count: number, base: LineStarted['base']): Records {
  const conversations: Conversation[] = Array.from({ length: CONVERSATIONS }, (_, i) => ({
    session: `session-${i}`,
    last: null,
    turns: 0,
  }))
  let [weightsTip, updatesTip, version, sessions] = ['', '', 0, CONVERSATIONS]
  let batch: BatchItem[] = []
  const start = encodeEvent({ ...lineStarted(), base })
  yield start
  weightsTip = start.id
  for (let i = 0; i < count; i += 1) {
    const index = (i * 37) % CONVERSATIONS
    const conversation = conversations[index]!
    const { session, last } = conversation
    const at = T0 + i * 100
    const text = `This is answer ${i}, in a sentence of usual length.`
    const captured = turn({ session, name: `n${i}`, says: text, at, version, ...(last ? { to: last.text } : {}) })
    const record = encodeEvent(captured)
    yield record
    if (last) yield* score(last)
    conversation.last = { turn: captured, record: record.id, text }
    conversation.turns += 1
    if (conversation.turns === TURNS_EACH) {
      yield encodeEvent({ type: 'SessionClosed', session, open: [captured.turn], why: 'idle', at: at + 500 })
      yield* score(conversation.last)
      conversations[index] = { session: `session-${sessions}`, last: null, turns: 0 }
      sessions += 1
    }
  }
  for (const { session, last } of conversations) {
    if (!last) continue
    yield encodeEvent({ type: 'SessionClosed', session, open: [last.turn.turn], why: 'idle', at: T0 + count * 100 })
    yield* score(last)
  }
  yield encodeEvent(headMoved(weightsTip, version, 0, T0 + count * 100 + 1))

  function* score({ turn: captured, record }: NonNullable<Conversation['last']>): Records {
    const event = scored(captured, captured.at % 3 === 0 ? -1 : 1)
    const scoreRecord = encodeEvent(event)
    yield scoreRecord
    batch.push({
      turn: captured.turn,
      record,
      session: captured.session,
      score: scoreRecord.id,
      subject: captured.subject,
      version: captured.version,
      reward: event.reward,
      baseline: 0,
      advantage: event.reward,
      hint: null,
    })
    if (batch.length < BATCH) return
    const sealed: Event = {
      type: 'BatchSealed',
      prev: updatesTip,
      policy: 'policy',
      number: version + 1,
      parent: { version, adapter: null, state: null },
      items: batch,
      dropped: [],
      baselines: [{ subject: captured.subject, value: 0.5, count: 1 }],
      seed: 7,
      loss: 'hybrid',
      settings: { learningRate: 0.01 },
      at: event.at,
    }
    const update = computed(sealed)
    const updateRecord = encodeEvent(update)
    const versionRecord = encodeEvent(published(weightsTip, version + 1, version, update))
    yield* [encodeEvent(sealed), updateRecord, versionRecord]
    ;[updatesTip, weightsTip, version, batch] = [updateRecord.id, versionRecord.id, version + 1, []]
  }
}
