/** A long log as the services leave one: many conversations at once, each turn scored when the next comes, every 16 scores a batch and a version. */
import { encodeEvent, type BatchItem, type Encoded, type Event, type TurnCaptured } from '@instar/events'
import { computed, headMoved, lineStarted, published, scored, T0, turn } from '../../test/kit/projected-history.ts'

const CONVERSATIONS = 200
const TURNS_EACH = 10
const BATCH = 16

type Open = { session: string; last: { of: TurnCaptured; record: string; says: string } | null; turns: number }

export type Long = Generator<Encoded & { id: string }>

/** `count` turns; about 3 records for each two of them. The head is rolled back to the base at the end, so that a gateway has no adapter to load. */
export const longLog = function* (count: number): Long {
  const open: Open[] = Array.from({ length: CONVERSATIONS }, (_, i) => ({
    session: `session-${i}`,
    last: null,
    turns: 0,
  }))
  let [weightsTip, updatesTip, version, sessions] = ['', '', 0, CONVERSATIONS]
  let batch: BatchItem[] = []
  const start = encodeEvent(lineStarted())
  yield start
  weightsTip = start.id
  for (let i = 0; i < count; i += 1) {
    const place = (i * 37) % CONVERSATIONS
    const conversation = open[place]!
    const { session, last } = conversation
    const at = T0 + i * 100
    const says = `This is answer ${i}, in a sentence of usual length.`
    const of = turn({ session, name: `n${i}`, says, at, version, ...(last ? { to: last.says } : {}) })
    const record = encodeEvent(of)
    yield record
    if (last) yield* score(last)
    conversation.last = { of, record: record.id, says }
    conversation.turns += 1
    if (conversation.turns === TURNS_EACH) {
      yield encodeEvent({ type: 'SessionClosed', session, open: [of.turn], why: 'idle', at: at + 500 })
      yield* score(conversation.last)
      open[place] = { session: `session-${sessions}`, last: null, turns: 0 }
      sessions += 1
    }
  }
  for (const { session, last } of open) {
    if (!last) continue
    yield encodeEvent({ type: 'SessionClosed', session, open: [last.of.turn], why: 'idle', at: T0 + count * 100 })
    yield* score(last)
  }
  yield encodeEvent(headMoved(weightsTip, version, 0, T0 + count * 100 + 1))

  function* score({ of, record }: NonNullable<Open['last']>): Long {
    const event = scored(of, of.at % 3 === 0 ? -1 : 1)
    const encoded = encodeEvent(event)
    yield encoded
    batch.push({
      turn: of.turn,
      record,
      session: of.session,
      score: encoded.id,
      subject: of.subject,
      version: of.version,
      reward: event.reward,
      baseline: 0,
      advantage: event.reward,
      hint: null,
    })
    if (batch.length < BATCH) return
    const seal: Event = {
      type: 'BatchSealed',
      prev: updatesTip,
      policy: 'policy',
      number: version + 1,
      parent: { version, adapter: null, state: null },
      items: batch,
      dropped: [],
      baselines: [{ subject: of.subject, value: 0.5, count: 1 }],
      seed: 7,
      loss: 'hybrid',
      settings: { learningRate: 0.01 },
      at: event.at,
    }
    const sealed = encodeEvent(seal)
    const made = computed(seal)
    const update = encodeEvent(made)
    const next = encodeEvent(published(weightsTip, version + 1, version, made))
    yield* [sealed, update, next]
    ;[updatesTip, weightsTip, version, batch] = [update.id, next.id, version + 1, []]
  }
}
