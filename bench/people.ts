/**
 * People who talk to a gateway at a fixed rate, whether it keeps up or not, in a thread of their own: a question,
 * and when its answer is there what the person thinks of it. Times are milliseconds since the epoch.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { USERS, WRONG, type User } from '../cli/src/demo/users.ts'
import { isCorrect, questions } from '../models/tiny/recipe/questions.ts'
import { integer, pick, seeded } from '../models/tiny/recipe/random.ts'
import type { Question } from '../models/tiny/recipe/families/family.ts'

type Crowd = { url: string; seconds: number; perSecond: number; learn: boolean; seed: number }
/** `due`: when it was to be sent; `first`: its first token was there. */
export type Asked = { due: number; first: number; version: number }
export type Report = { asked: Asked[]; failed: number; why: string | null }

const now = (): number => performance.timeOrigin + performance.now()

type Message = { role: string; content: string }

/** One streamed answer. Throws when it is refused or ends without a token. */
export const ask = async (
  url: string,
  messages: readonly Message[],
  options: { user?: string; seed?: number; learn?: boolean; model?: string } = {},
): Promise<{ first: number; version: number; text: string }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(options.learn ? {} : { 'x-instar-no-train': '1' }) },
    body: JSON.stringify({
      model: options.model ?? 'policy',
      messages,
      stream: true,
      max_tokens: 64,
      ...(options.user ? { user: options.user } : {}),
      ...(options.seed ? { seed: options.seed } : {}),
    }),
  })
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
  let first = 0
  let text = ''
  let rest = ''
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue
      const content =
        (JSON.parse(line.slice(6)) as { choices?: { delta?: { content?: string } }[] }).choices?.[0]?.delta?.content ??
        ''
      if (content !== '' && first === 0) first = now()
      text += content
    }
  }
  if (first === 0) throw new Error('an answer without a token')
  return { first, version: Number(response.headers.get('x-instar-version')), text }
}

const talk = async ({ url, seconds, perSecond, learn, seed }: Crowd): Promise<Report> => {
  const report: Report = { asked: [], failed: 0, why: null }
  const random = seeded(seed)
  const pool = questions({ heldOut: true, split: 'demo', seed, count: Math.ceil(seconds * perSecond) })
  const answered: { user: User; question: Question; messages: Message[]; text: string }[] = []
  const open = new Set<Promise<void>>()
  const send = (due: number, user: User, messages: readonly Message[], then: (text: string) => void): void => {
    const one = (async () => {
      try {
        const { first, version, text } = await ask(url, messages, {
          user: user.who,
          seed: integer(random, 1, 2 ** 31 - 1),
          learn,
        })
        report.asked.push({ due, first, version })
        then(text)
      } catch (error) {
        report.failed += 1
        report.why = String(error)
      }
    })()
    open.add(one)
    void one.finally(() => open.delete(one))
  }
  const began = now()
  for (let at = 0; at < seconds * perSecond; at++) {
    const due = began + (at * 1000) / perSecond
    await new Promise((resolve) => {
      setTimeout(resolve, Math.max(0, due - now()))
    })
    const reader = at % 2 === 1 ? answered.shift() : undefined
    if (reader) {
      const { user, question, messages, text } = reader
      const reaction = pick(
        random,
        !isCorrect(question, text) ? WRONG : user.satisfied(text) ? user.thanks : user.complaints,
      )
      send(
        due,
        user,
        [...messages, { role: 'assistant', content: text }, { role: 'user', content: reaction }],
        () => undefined,
      )
    } else {
      const question = pool[at]!
      const user = USERS[at % USERS.length]!
      const messages = [
        { role: 'system', content: user.system },
        { role: 'user', content: question.question },
      ]
      send(due, user, messages, (text) => answered.push({ user, question, messages, text }))
    }
  }
  await Promise.all(open)
  return report
}

export const crowd = (options: Crowd): Promise<Report> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: options })
    worker.once('message', resolve)
    worker.once('error', reject)
  })

if (parentPort) parentPort.postMessage(await talk(workerData as Crowd))
