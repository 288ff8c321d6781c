/** Turns as a gateway would capture them, for tests with constructed histories. */
import {
  answerKey,
  contentSha,
  derivedId,
  encodeEvent,
  storeBody,
  turnId,
  written,
  type Event,
  type FeedbackGiven,
  type Logged,
  type TurnCaptured,
} from '@instar/events'
import { lastAnswer } from '@instar/dialects'

export type Said = { role: 'system' | 'user' | 'assistant' | 'tool'; content: string }
export type Talk = {
  session: string
  /** The messages of the request, without the answer. */
  messages: readonly Said[]
  answer: string
  at: number
  name?: string
} & Partial<
  Pick<
    TurnCaptured,
    | 'policy'
    | 'version'
    | 'kind'
    | 'trainable'
    | 'reason'
    | 'subject'
    | 'key'
    | 'task'
    | 'group'
    | 'candidate'
    | 'candidates'
    | 'digest'
  >
>

export const turnNamed = (session: string, name: string): string =>
  turnId(session, derivedId('turn', session, name).slice(0, 32))

export const captured = ({
  session,
  messages,
  answer,
  at,
  name = `${messages.length}@${at}`,
  ...more
}: Talk): TurnCaptured => {
  const body = Buffer.from(JSON.stringify({ model: 'policy', messages }))
  const { after, stateFrom } = lastAnswer(messages)
  const turn = turnNamed(session, name)
  return {
    type: 'TurnCaptured',
    finish: 'stop',
    turn,
    session,
    policy: 'policy',
    version: 0,
    adapter: null,
    group: turn,
    candidate: 0,
    candidates: 1,
    dialect: 'chat',
    kind: 'main',
    labelSource: 'header',
    userTurn: null,
    subject: session,
    key: null,
    digest: contentSha(body),
    body: storeBody(body, null).stored,
    after,
    stateFrom,
    prompt: { from: null, prefix: 0, ids: [1, 2, 3], length: 3 },
    sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 8, stop: [] },
    tokens: 'exact',
    ids: [4, 5],
    logprobs: [-0.5, -0.25],
    text: written(answer),
    toolCallIds: [],
    answer: answerKey(answer, []),
    trainable: true,
    reason: null,
    offPrefix: false,
    engine: 'test',
    at,
    firstTokenAt: at,
    finishedAt: at,
    ...more,
  }
}

export const feedback = (
  session: string,
  turn: string | null,
  value: number,
  at: number,
  id = `f${at}`,
  comment: string | null = null,
): FeedbackGiven => ({
  type: 'FeedbackGiven',
  id,
  session,
  turn,
  value,
  comment: comment === null ? null : written(comment),
  subject: session,
  key: null,
  at,
})

/** As a log would return it. */
export const logged = (event: Event, offset: number): Logged<Event> => {
  const { id, topic, key, timestamp } = encodeEvent(event)
  return { id, topic, key, timestamp, partition: 0, offset, event }
}
