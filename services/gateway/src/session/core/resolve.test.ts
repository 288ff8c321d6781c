import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  answerKey,
  decodeRecord,
  encodeEvent,
  storeBody,
  type Logged,
  type TurnCaptured,
  type TurnsEvent,
} from '@instar/events'
import { lastAnswer } from '@instar/dialects'
import { answersOf, choose, locate, settled } from './resolve.ts'
import { overlapWith } from './overlap.ts'
import type { SessionQuery } from './session-query.ts'
import { turnsNamed } from './names.ts'
import { evolveIndex, initialIndex } from './session-index.ts'
import { digestOf } from '../../capture/core/turn.ts'

type Said = { role: 'user' | 'assistant'; content: string }
let offset = 0
const turn = (session: string, messages: Said[], text: string, key: string | null = null): Logged<TurnsEvent> => {
  const event: TurnCaptured = {
    type: 'TurnCaptured',
    finish: 'stop',
    turn: `${session}.${offset}`,
    session,
    policy: 'policy',
    version: 0,
    adapter: null,
    group: `g${offset}`,
    candidate: 0,
    candidates: 1,
    dialect: 'chat',
    kind: 'main',
    labelSource: 'fingerprint',
    userTurn: null,
    subject: 'u',
    key,
    digest: digestOf({ messages, tools: [] }),
    body: storeBody(Buffer.from(JSON.stringify({ messages })), null).stored,
    ...lastAnswer(messages),
    prompt: { from: null, prefix: 0, ids: [1], length: 1 },
    sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
    tokens: 'exact',
    ids: [2],
    logprobs: [-0.5],
    text: { keyId: null, bytes: Buffer.from(text) },
    toolCallIds: [],
    answer: answerKey(text, []),
    trainable: true,
    reason: null,
    offPrefix: false,
    engine: 'e',
    at: offset,
    firstTokenAt: offset,
    finishedAt: offset,
  }
  return decodeRecord({ ...encodeEvent(event), partition: 0, offset: offset++ }) as Logged<TurnsEvent>
}

test('who repeats a trimmed answer goes on in his own session, though somebody else was told just that', () => {
  const index = initialIndex({ sessions: 10, turns: 100 })
  const mine: Said[] = [{ role: 'user', content: 'May I?' }]
  const theirs: Said[] = [{ role: 'user', content: 'Is it so?' }]
  evolveIndex(index, turn('mine', mine, ' Yes.\n'))
  evolveIndex(index, turn('theirs', theirs, 'Yes.'))
  const messages: Said[] = [...mine, { role: 'assistant', content: 'Yes.' }, { role: 'user', content: 'Thank you.' }]
  const asked: SessionQuery = {
    key: null,
    label: null,
    messages,
    answers: answersOf(messages),
    digest: digestOf({ messages, tools: [] }),
    before: digestOf({ messages: mine, tools: [] }),
    subject: null,
  }
  const step = locate(index, asked)
  assert.ok(step.do === 'compare')
  const overlaps = step.candidates.map(({ session }) => overlapWith(asked)(session === 'mine' ? mine : theirs))
  settled(index, asked, step, overlaps)
  assert.equal(choose(index, asked, step.candidates, overlaps)?.session, 'mine')
})

test('a request that says more before the answer than the one that is known waits for the log, which may hold its own', () => {
  const index = initialIndex({ sessions: 10, turns: 100 })
  const asked: Said[] = [{ role: 'user', content: 'Is it so?' }]
  evolveIndex(index, turn('theirs', asked, 'No.'))
  const isSettled = (before: Said[]): boolean => {
    const messages: Said[] = [...before, { role: 'assistant', content: 'No.' }, { role: 'user', content: 'Why?' }]
    const query: SessionQuery = {
      key: null,
      label: null,
      messages,
      answers: answersOf(messages),
      digest: digestOf({ messages, tools: [] }),
      before: digestOf({ messages: before, tools: [] }),
      subject: null,
    }
    const step = locate(index, query)
    assert.ok(step.do === 'compare')
    const overlaps = step.candidates.map(() => overlapWith(query)(asked))
    return settled(index, query, step, overlaps)
  }
  assert.ok(isSettled(asked))
  assert.ok(!isSettled([...asked, { role: 'assistant', content: 'Yes.' }, { role: 'user', content: 'And now?' }]))
})

test('equal answers and prompts of one API key do not displace those of another', () => {
  const index = initialIndex({ sessions: 1000, turns: 1000 })
  const mine: Said[] = [{ role: 'user', content: 'May I?' }]
  evolveIndex(index, turn('mine', mine, 'Yes.', 'b'))
  for (let n = 0; n < 300; n += 1) evolveIndex(index, turn(`theirs${n}`, mine, 'Yes.', 'a'))
  const messages: Said[] = [...mine, { role: 'assistant', content: 'Yes.' }, { role: 'user', content: 'Thank you.' }]
  const asked = (key: string): SessionQuery => ({
    key,
    label: null,
    messages,
    answers: answersOf(messages),
    digest: digestOf({ messages, tools: [] }),
    before: digestOf({ messages: mine, tools: [] }),
    subject: null,
  })
  const step = locate(index, asked('b'))
  assert.deepEqual(step.do === 'compare' && step.candidates.map(({ session }) => session), ['mine'])
  assert.deepEqual(
    [...index.byLoose.keys()].map((name) => turnsNamed(index.byLoose, name).length),
    [1, 256],
  )
})

test('a conversation of equal answers is found with work in proportion to its length', (t) => {
  const index = initialIndex({ sessions: 10, turns: 1000 })
  const messages: Said[] = []
  for (let n = 0; n < 300; n += 1) {
    messages.push({ role: 'user', content: `and ${n}?` })
    evolveIndex(index, turn('long', messages, 'Yes.'))
    messages.push({ role: 'assistant', content: 'Yes.' })
  }
  const all: Said[] = [...messages, { role: 'user', content: 'Thanks' }]
  const asked: SessionQuery = {
    key: null,
    label: null,
    messages: all,
    answers: answersOf(all),
    digest: digestOf({ messages: all, tools: [] }),
    before: null,
    subject: null,
  }
  const read = t.mock.method(index.fold.turns, 'get')
  const step = locate(index, asked)
  assert.ok(step.do === 'compare' && step.candidates.length === 8)
  assert.equal(step.candidates[0]!.turn, index.fold.sessions.get('long')!.turns.at(-1)!.turn)
  assert.ok(read.mock.callCount() < 300 * 70, `${read.mock.callCount()} turns were read`)
})
