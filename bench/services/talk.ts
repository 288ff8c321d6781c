/** People who talk to a gateway: conversations of four turns, streamed. */
import { USERS } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'

const TURNS = 4
const POOL = questions({ heldOut: true, split: 'demo', seed: 7, count: 400 })

type Message = { role: string; content: string }
export type Said = { seed: number; endedAt: number; turn: string }

const say = async (
  url: string,
  session: string,
  messages: readonly Message[],
  seed: number,
): Promise<{ said: Said; text: string }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': session },
    body: JSON.stringify({ model: 'policy', messages, stream: true, max_tokens: 256, seed, user: session.slice(0, 8) }),
  })
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
  let all = ''
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) all += piece
  const endedAt = performance.timeOrigin + performance.now()
  if (!all.includes('data: [DONE]')) throw new Error(`an answer without an end: ${all.slice(-200)}`)
  const text = all
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map(
      (line) =>
        (JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? '',
    )
    .join('')
  return { said: { seed, endedAt, turn: response.headers.get('x-instar-turn-id') ?? '' }, text }
}

let seeds = 0

/** Calls `wait` before each turn. */
async function* conversation(url: string, name: string, wait: () => Promise<void>): AsyncGenerator<Said> {
  const at = seeds
  const user = USERS[at % USERS.length]!
  const messages: Message[] = [{ role: 'system', content: user.system }]
  for (let turn = 0; turn < TURNS; turn++) {
    const { question } = POOL[(at + turn) % POOL.length]!
    const opinions = at % 3 === 0 ? user.complaints : user.thanks
    messages.push({
      role: 'user',
      content:
        turn === 0 ? question : turn % 2 === 1 ? opinions[(at + turn) % opinions.length]! : `And this one: ${question}`,
    })
    await wait()
    const { said, text } = await say(url, name, messages, ++seeds)
    messages.push({ role: 'assistant', content: text })
    yield said
  }
}

/** `callers` conversations at a time, each turn after the last, until so many turns are said. */
export const busily = async (url: string, callers: number, turns: number): Promise<Said[]> => {
  const all: Said[] = []
  let begun = 0
  await Promise.all(
    Array.from({ length: callers }, async () => {
      for (; begun < turns;) {
        begun += TURNS
        for await (const said of conversation(url, `s${crypto.randomUUID()}`, () => Promise.resolve())) all.push(said)
      }
    }),
  )
  return all
}

/** So many turns a second, whether or not the last are answered. */
export const steadily = async (url: string, perSecond: number, seconds: number): Promise<Said[]> => {
  const all: Said[] = []
  const talks: Promise<void>[] = []
  const begin = performance.now()
  for (let at = 0; at < (perSecond * seconds) / TURNS; at++) {
    const start = (at * 1000 * TURNS) / perSecond
    const due = (ms: number): Promise<void> =>
      new Promise((resolve) => {
        setTimeout(resolve, Math.max(0, begin + ms - performance.now()))
      })
    await due(start)
    let turn = 0
    talks.push(
      (async () => {
        for await (const said of conversation(url, `s${crypto.randomUUID()}`, () =>
          due(start + (turn++ * 1000) / perSecond),
        ))
          all.push(said)
      })(),
    )
  }
  await Promise.all(talks)
  return all
}
