/**
 * Simulated users in a separate thread, which send requests at a fixed rate (open loop): questions, and after an answer
 * a reaction to it. Times are milliseconds since the epoch.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { USERS, WRONG, type User } from '../cli/src/demo/users.ts'
import { isCorrect, questions } from '../models/tiny/recipe/questions.ts'
import { integer, pick, seeded } from '../models/tiny/recipe/random.ts'
import type { Question } from '../models/tiny/recipe/families/family.ts'

/** `perSecond`: requests per second. `learn`: the turns may be trained on. */
type UserLoad = { url: string; seconds: number; perSecond: number; learn: boolean; seed: number }
/** `due`: when the request was to be sent; `first`: when its first token arrived. `version`: that answered. */
export type RequestTiming = { due: number; first: number; version: number }
/** `lastError`: of the failed requests; null: none. */
type LoadResult = { requests: RequestTiming[]; failed: number; lastError: string | null }

const now = (): number => performance.timeOrigin + performance.now()

type Message = { role: string; content: string }

/** Sends a request and reads the streamed answer. Throws if it is refused or ends without a token. */
export const streamCompletion = async (
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
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n')
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
  if (first === 0) throw new Error('the answer has no token')
  return { first, version: Number(response.headers.get('x-instar-version')), text }
}

const sendLoad = async ({ url, seconds, perSecond, learn, seed }: UserLoad): Promise<LoadResult> => {
  const result: LoadResult = { requests: [], failed: 0, lastError: null }
  const random = seeded(seed)
  const pool = questions({ heldOut: true, split: 'demo', seed, count: Math.ceil(seconds * perSecond) })
  const answered: { user: User; question: Question; messages: Message[]; text: string }[] = []
  const inFlight = new Set<Promise<void>>()
  const send = (due: number, user: User, messages: readonly Message[], onAnswer: (text: string) => void): void => {
    const request = (async () => {
      try {
        const { first, version, text } = await streamCompletion(url, messages, {
          user: user.requestUser,
          seed: integer(random, 1, 2 ** 31 - 1),
          learn,
        })
        result.requests.push({ due, first, version })
        onAnswer(text)
      } catch (error) {
        result.failed += 1
        result.lastError = String(error)
      }
    })()
    inFlight.add(request)
    void request.finally(() => inFlight.delete(request))
  }
  const startedAt = now()
  for (let at = 0; at < seconds * perSecond; at++) {
    const due = startedAt + (at * 1000) / perSecond
    await new Promise((resolve) => {
      setTimeout(resolve, Math.max(0, due - now()))
    })
    const previous = at % 2 === 1 ? answered.shift() : undefined
    if (previous) {
      const { user, question, messages, text } = previous
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
  await Promise.all(inFlight)
  return result
}

/** Runs the load in a worker thread. */
export const runUserLoad = (load: UserLoad): Promise<LoadResult> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: load })
    worker.once('message', resolve)
    worker.once('error', reject)
  })

if (parentPort) parentPort.postMessage(await sendLoad(workerData as UserLoad))
