/** Load on a gateway: streamed conversations of four turns. */
import { USERS } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'

/** Turns of a conversation. */
const TURNS = 4
const POOL = questions({ heldOut: true, split: 'demo', seed: 7, count: 400 })

export type Message = { role: string; content: string }
/** `session`: its name in a header; null: none. */
type Request = { session: string | null; user: string; messages: readonly Message[]; seed: number }
/** `seed`: of the request; `endedAt`: end of the answer, ms since the epoch; `turn`: its id. */
type TurnTiming = { seed: number; endedAt: number; turn: string }

export class RequestError extends Error {
  readonly status: number
  constructor(status: number, text: string) {
    super(`HTTP ${status}: ${text}`)
    this.status = status
  }
}

/** A streamed answer. `session`: that the gateway found. Throws unless the answer is complete: `RequestError` where it was refused. */
export const complete = async (
  url: string,
  { session, user, messages, seed }: Request,
): Promise<{ timing: TurnTiming; text: string; session: string }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(session === null ? {} : { 'x-session-id': session }) },
    body: JSON.stringify({ model: 'policy', messages, stream: true, max_tokens: 256, seed, user }),
  })
  if (!response.ok || !response.body) throw new RequestError(response.status, await response.text())
  let body = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) body += chunk
  const endedAt = performance.timeOrigin + performance.now()
  if (!body.includes('data: [DONE]')) throw new Error(`the stream has no [DONE]: ${body.slice(-200)}`)
  const text = body
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map(
      (line) =>
        (JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? '',
    )
    .join('')
  const header = (name: string): string => response.headers.get(`x-instar-${name}-id`) ?? ''
  return { timing: { seed, endedAt, turn: header('turn') }, text, session: header('session') }
}

let seeds = 0

/** Yields the timing of each turn; awaits `wait` before each. */
async function* converse(url: string, session: string, wait: () => Promise<void>): AsyncGenerator<TurnTiming> {
  const at = seeds
  const user = USERS[at % USERS.length]!
  const messages: Message[] = [{ role: 'system', content: user.system }]
  for (let turn = 0; turn < TURNS; turn++) {
    const { question } = POOL[(at + turn) % POOL.length]!
    const reactions = at % 3 === 0 ? user.complaints : user.thanks
    messages.push({
      role: 'user',
      content:
        turn === 0
          ? question
          : turn % 2 === 1
            ? reactions[(at + turn) % reactions.length]!
            : `And this one: ${question}`,
    })
    await wait()
    const { timing, text } = await complete(url, {
      session,
      user: session.slice(0, 8),
      messages,
      seed: ++seeds,
    })
    messages.push({ role: 'assistant', content: text })
    yield timing
  }
}

/** Closed loop: `callers` concurrent conversations, until `turns` turns have been sent. */
export const runClosedLoop = async (url: string, callers: number, turns: number): Promise<TurnTiming[]> => {
  const timings: TurnTiming[] = []
  let sent = 0
  await Promise.all(
    Array.from({ length: callers }, async () => {
      for (; sent < turns;) {
        sent += TURNS
        for await (const timing of converse(url, `s${crypto.randomUUID()}`, () => Promise.resolve()))
          timings.push(timing)
      }
    }),
  )
  return timings
}

/** Open loop: `perSecond` turns a second, whether or not the earlier ones have been answered. */
export const runOpenLoop = async (url: string, perSecond: number, seconds: number): Promise<TurnTiming[]> => {
  const timings: TurnTiming[] = []
  const conversations: Promise<void>[] = []
  const startedAt = performance.now()
  for (let at = 0; at < (perSecond * seconds) / TURNS; at++) {
    const firstTurnMs = (at * 1000 * TURNS) / perSecond
    const waitUntil = (ms: number): Promise<void> =>
      new Promise((resolve) => {
        setTimeout(resolve, Math.max(0, startedAt + ms - performance.now()))
      })
    await waitUntil(firstTurnMs)
    let turn = 0
    conversations.push(
      (async () => {
        for await (const timing of converse(url, `s${crypto.randomUUID()}`, () =>
          waitUntil(firstTurnMs + (turn++ * 1000) / perSecond),
        ))
          timings.push(timing)
      })(),
    )
  }
  await Promise.all(conversations)
  return timings
}
