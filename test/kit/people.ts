/** Users with the official client. Tests do not depend on the text of answers. */
import type OpenAI from 'openai'
import { setTimeout as pause } from 'node:timers/promises'

export type Messages = OpenAI.ChatCompletionMessageParam[]

export type Answer = {
  text: string
  turn: string
  session: string
  version: number
  finish: string | null
  /** The number of pieces of content, and of those before the last event. */
  pieces: number
  usage: OpenAI.CompletionUsage | null
  askedAt: number
  firstAt: number
  endedAt: number
}

export type Asked = {
  user?: string
  session?: string
  maxTokens?: number
  model?: string
  onPiece?: (count: number, turn: string) => void
}

const headersOf = ({ headers }: Response): Pick<Answer, 'turn' | 'session' | 'version'> => {
  const header = (name: string): string => {
    const value = headers.get(name)
    if (value === null) throw new Error(`an answer without ${name}`)
    return value
  }
  return {
    turn: header('x-instar-turn-id'),
    session: header('x-instar-session-id'),
    version: Number(header('x-instar-version')),
  }
}

/** One streamed answer, to its end. Rejects if the stream breaks. */
export const ask = async (
  client: OpenAI,
  messages: Messages,
  { user, session, maxTokens = 24, model = 'policy', onPiece }: Asked = {},
): Promise<Answer> => {
  const askedAt = Date.now()
  const { data, response } = await client.chat.completions
    .create(
      {
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
        max_tokens: maxTokens,
        ...(user === undefined ? {} : { user }),
      },
      session === undefined ? {} : { headers: { 'x-session-id': session } },
    )
    .withResponse()
  const answer: Answer = {
    text: '',
    ...headersOf(response),
    finish: null,
    pieces: 0,
    usage: null,
    askedAt,
    firstAt: 0,
    endedAt: 0,
  }
  for await (const chunk of data) {
    const [choice] = chunk.choices
    if (choice?.delta.content) {
      answer.firstAt ||= Date.now()
      answer.text += choice.delta.content
      answer.pieces += 1
      onPiece?.(answer.pieces, answer.turn)
    }
    answer.finish = choice?.finish_reason ?? answer.finish
    answer.usage = chunk.usage ?? answer.usage
  }
  if (answer.finish === null) throw new Error(`the answer ${answer.turn} broke off`)
  answer.endedAt = Date.now()
  return answer
}

/** One whole answer. */
export const askWhole = async (
  client: OpenAI,
  messages: Messages,
  { user, session, maxTokens = 24, model = 'policy' }: Asked = {},
): Promise<Answer> => {
  const askedAt = Date.now()
  const { data, response } = await client.chat.completions
    .create(
      { model, messages, max_tokens: maxTokens, ...(user === undefined ? {} : { user }) },
      session === undefined ? {} : { headers: { 'x-session-id': session } },
    )
    .withResponse()
  const [choice] = data.choices
  const endedAt = Date.now()
  return {
    text: choice!.message.content ?? '',
    ...headersOf(response),
    finish: choice!.finish_reason,
    pieces: 1,
    usage: data.usage ?? null,
    askedAt,
    firstAt: endedAt,
    endedAt,
  }
}

/** No two users ask the same question, since an unlabelled conversation is found by its text. */
export const question = (i: number): string => `What is ${i} + ${(i * 3 + 2) % 10}?`

const THANKS = [
  'Thanks, that is just how I like it.',
  'Perfect, thank you very much.',
  'Great answer, thanks!',
  'Yes, exactly like that, thank you.',
]
const COMPLAINTS = [
  'That is too short for my notes, please elaborate.',
  'Too brief, I need a longer explanation.',
  'Please be warmer, that was cold.',
  'No, that is wrong.',
]

/** The reaction of user `i` to the first answer, and its reward. */
export const reaction = (i: number): { says: string; reward: 1 | -1 } => {
  const at = Math.floor(i / 2) % 4
  return i % 2 === 0 ? { says: THANKS[at]!, reward: 1 } : { says: COMPLAINTS[at]!, reward: -1 }
}

/** Four users in turn, alternately content and not. */
const personOf = (i: number): string => `person ${Math.floor(i / 2) % 4}`

export type Session = { first: Answer; second: Answer; reward: number; messages: Messages }

/** A question and a reaction to its answer; labelled by a header every other time, else found by the answer. */
export const converse = async (client: OpenAI, i: number, asked: Asked = {}): Promise<Session> => {
  const { says, reward } = reaction(i)
  const with_ = { user: personOf(i), ...(i % 4 < 2 ? { session: `talk-${i}` } : {}), ...asked }
  const messages: Messages = [{ role: 'user', content: question(i) }]
  const first = await ask(client, messages, with_)
  messages.push({ role: 'assistant', content: first.text }, { role: 'user', content: says })
  const second = await ask(client, messages, with_)
  messages.push({ role: 'assistant', content: second.text })
  return { first, second, reward, messages }
}

/** `count` sessions from number `from` on, four at a time. */
export const sessions = async (client: OpenAI, from: number, count: number): Promise<Session[]> => {
  const all: Session[] = []
  for (let i = from; i < from + count; i += 4)
    all.push(
      ...(await Promise.all([i, i + 1, i + 2, i + 3].filter((n) => n < from + count).map((n) => converse(client, n)))),
    )
  return all
}

export type Background = { stop(): Promise<Answer[]> }

/** A further client that sends requests until it is stopped, and then returns its errors. */
export const talkInBackground = (client: OpenAI): Background => {
  const answers: Answer[] = []
  let over = false
  const lane = (async () => {
    for (let i = 0; !over; i += 1) {
      answers.push(
        await ask(client, [{ role: 'user', content: `Tell me about number ${i}.` }], {
          user: 'background',
          maxTokens: 12,
        }),
      )
      await pause(40)
    }
  })()
  lane.catch(() => undefined)
  return {
    async stop() {
      over = true
      await lane
      return answers
    },
  }
}
