/**
 * A history for the dashboard, as the services write it: sessions of four to eight turns by forty people, scores, hints,
 * feedback, side requests, background candidates; an update for every `turns / versions` turns, some of which the gate
 * rejects; rollbacks and freezes.
 */
import { written } from '@instar/events/codec'
import type { Event, TurnCaptured, TurnScored, VersionRejected } from '@instar/events/records'
import {
  computed,
  headMoved,
  idOf,
  lineStarted,
  published,
  scored,
  sealed,
  sha,
  T0,
  turn,
} from '../../test/kit/projected-history.ts'

export type Size = { turns: number; versions: number }
/** 100,000 turns and 500 versions. */
export const FULL: Size = { turns: 100_000, versions: 500 }

const PEOPLE = 40
const DIALECTS = ['chat', 'messages', 'responses'] as const
const SKIPS = ['no_next_state', 'abstained', 'overloaded']
const HINTS = ['Answer in one plain paragraph.', 'Name the file before the change.', 'Say what you ran.']
/** Between two turns, in milliseconds: 100,000 turns in 35 days. */
const STEP_MS = 30_000
/** Turns of the 200 newest that a batch holds; the others are dropped or skipped. */
const BATCH_SHARE = 0.64

/** Deterministic noise, −1…1. */
const noise = (n: number): number => Math.sin(n * 12.9898) * Math.cos(n * 78.233)

const gateFigures = (version: number): Record<string, number> => ({
  kl_parent: 0.02 + 0.01 * noise(version),
  kl_base: 0.9 * (1 - Math.exp(-version / 200)) + 0.02 * noise(version + 1),
  content: 0.8 + 0.05 * noise(version + 2),
  entropy: 1.1 - 0.4 * (1 - Math.exp(-version / 150)),
  length: 60 - 20 * (1 - Math.exp(-version / 100)) + 3 * noise(version + 3),
  repetition: 0.02 + 0.01 * noise(version + 4),
})

/** Of every 25 updates one is rejected; after every 60 versions the head goes back by one. */
const [REJECT_EVERY, ROLLBACK_EVERY] = [25, 60]

export const dashboardHistory = function* ({ turns, versions }: Size): Generator<Event> {
  const every = Math.max(8, Math.floor(turns / (versions * (1 + 1 / (REJECT_EVERY - 1)))))
  const start = lineStarted('policy', { settings: { batchSize: Math.floor(every * BATCH_SHARE) }, at: T0 })
  yield start
  let [weightsTip, updatesTip, head, newest, updates, spoken] = [idOf(start), '', 0, 0, 0, '']
  let waiting: { of: TurnCaptured; score: TurnScored }[] = []
  let at = T0
  let [session, inSession, length, since] = [0, 0, 4, 0]
  for (let i = 0; i < turns; i++) {
    at += STEP_MS
    since += 1
    if (inSession === length) [session, inSession, length] = [session + 1, 0, 4 + (session % 5)]
    const side = i % 17 === 3
    const aborted = i % 97 === 5
    const says = `Answer ${i}: the build fails since the reader asks for a field that old records do not have.`
    const of = turn({
      session: `session-${String(session).padStart(6, '0')}`,
      name: `n${i}`,
      says,
      at,
      version: head,
      adapter: head === 0 ? null : sha(`adapter ${head}`),
      dialect: DIALECTS[session % 3]!,
      subject: `person-${String((session * 7) % PEOPLE).padStart(2, '0')}`,
      key: session % 4 === 0 ? null : `agent-${session % 3}`,
      kind: side ? 'side' : 'main',
      ...(side ? { trainable: false, reason: 'side' } : {}),
      firstTokenAt: at + 80 + Math.round(40 * Math.abs(noise(i))),
      finishedAt: at + 900 + Math.round(600 * Math.abs(noise(i + 1))),
      ...(inSession === 0 || side ? {} : { to: spoken }),
    })
    inSession += 1
    if (aborted) {
      yield { ...of, type: 'TurnAborted', trainable: false, reason: 'aborted', why: 'client_gone' }
      continue
    }
    yield of
    if (inSession === length)
      yield { type: 'SessionClosed', session: of.session, open: [of.turn], why: 'idle', at: of.finishedAt + 900 }
    if (side) continue
    spoken = says
    const progress = 1 - Math.exp(-head / 120)
    const reward = Math.max(-1, Math.min(1, Math.round(10 * (progress - 0.3 + 0.7 * noise(i + 2))) / 10))
    const score = scored(of, reward, {
      judge: i % 3 === 0 ? 'reactions' : 'signals',
      hint: i % 5 === 0 ? written(HINTS[i % 3]!) : null,
    })
    if (i % 11 === 7) {
      const { reward: _, judge: __, hint: ___, hintJudge: ____, ...facts } = score
      yield { ...facts, type: 'TurnSkipped', reason: SKIPS[i % 3]! }
    } else {
      yield score
      waiting.push({ of, score })
    }
    if (i % 10 === 0) {
      const rank = { at: score.at + 1, id: `f${i}` }
      yield {
        type: 'FeedbackGiven',
        id: rank.id,
        session: of.session,
        turn: of.turn,
        value: 1,
        comment: null,
        subject: of.subject,
        key: null,
        at: rank.at,
      }
      yield { ...score, type: 'ScoreRevised', judge: 'feedback', reward: 1, rank, at: score.at + 2 }
    }
    if (since < every || newest === versions) continue
    since = 0
    updates += 1
    const items = waiting.slice(-Math.floor(every * BATCH_SHARE))
    const dropped = waiting.slice(0, -items.length).map(({ of: one }, n) => ({
      turn: one.turn,
      reason: n % 2 === 0 ? 'stale' : 'duplicate',
    }))
    waiting = []
    const parent = { version: head, adapter: head === 0 ? null : sha(`adapter ${head}`), state: sha(`state ${head}`) }
    const batch = sealed(updatesTip, updates, parent, items, { dropped, at: at + 2_000 })
    const figures = { loss: 0.5, policyLoss: 0.25, klLoss: 0.125, gradNorm: 1 + 0.3 * noise(updates) }
    const update = computed(batch, { figures })
    yield* [batch, update]
    updatesTip = idOf(update)
    if (updates % REJECT_EVERY === REJECT_EVERY - 1) {
      const rejected: VersionRejected = {
        type: 'VersionRejected',
        prev: weightsTip,
        policy: 'policy',
        update: idOf(update),
        adapter: update.adapter,
        parent: head,
        reason: 'kl',
        figures: gateFigures(updates),
        evidence: [],
        at: update.at + 100,
      }
      yield rejected
      weightsTip = idOf(rejected)
      continue
    }
    newest += 1
    const next = published(weightsTip, newest, head, update, { figures: gateFigures(newest) })
    yield next
    ;[weightsTip, head] = [idOf(next), newest]
    if (newest % ROLLBACK_EVERY !== ROLLBACK_EVERY - 1) continue
    const back = headMoved(weightsTip, head, head - 1, at + 10_000, { who: 'ann', why: 'answers became too short' })
    const thaw: Event = {
      type: 'LearningFrozen',
      prev: idOf(back),
      policy: 'policy',
      on: false,
      who: 'ann',
      why: 'looked at it',
      request: `thaw-${newest}`,
      at: at + 20_000,
    }
    yield* [back, thaw]
    ;[weightsTip, head] = [idOf(thaw), head - 1]
  }
}
