/**
 * What a group of candidates in the background is worth: the demo's three people, with one answer to each request or
 * with four candidates of it, under the same judge. Counted are conversations, which do not depend on the machine.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import OpenAI from 'openai'
import { createFirstError } from '../cli/src/demo/first-error.ts'
import { Demo, DEMO } from '../cli/src/demo/protocol.ts'
import { USERS, WRONG, type User } from '../cli/src/demo/users.ts'
import { startPipeline, type Pipeline } from '../cli/src/pipeline.ts'
import { machine, rounded } from './machine.ts'

const MODEL = resolve(import.meta.dirname, '../models/tiny')

type CandidatesRow = {
  judge: string
  candidates: number
  seed: number
  sessions: number
  /** Conversations of each person until three first replies in a row met the rule; null: never. */
  converged: string
  /** Mean over the people of the share of first replies that met the rule, on fresh questions. */
  before: number
  after: number
  content: number
  versions: number
  requests: number
  failed: number
  seconds: number
}
export type Report = { name: string; machine: string; rows: CandidatesRow[] }
type CandidatesOptions = { quick?: boolean; say?: (line: string) => void }

type Evidence = { answer: string; shown_answer?: string; next_state: { user: string } | null }

const HINTS: Readonly<Record<string, string>> = {
  student: 'Answer in plain text.',
  ta: 'Answer in full detail with several sentences.',
  teacher: 'Answer in a warm and friendly way.',
}
const complains = (words: string): User | undefined => USERS.find(({ complaints }) => complaints.includes(words))
const alike = (a: string, b: string): boolean => USERS.every(({ satisfied }) => satisfied(a) === satisfied(b))

/**
 * A judge that understands what people say and knows nothing else of them: who they are is not in its evidence. Of an
 * answer that was not shown it says whether a complaint about the one that was would hold for it too.
 */
const verdictOn = ({ answer, shown_answer: shown, next_state: next }: Evidence): { verdict: string; hint: string } => {
  const words = next?.user ?? ''
  const user = complains(words)
  if (shown !== undefined)
    return {
      verdict: user
        ? user.satisfied(answer)
          ? 'good'
          : 'bad'
        : USERS[0]!.thanks.includes(words) && alike(answer, shown)
          ? 'good'
          : 'unclear',
      hint: '',
    }
  if (user || WRONG.some((wrong) => wrong === words))
    return { verdict: 'bad', hint: user ? (HINTS[user.name] ?? '') : '' }
  return { verdict: words === '' ? 'unclear' : 'good', hint: '' }
}

const startJudge = async (): Promise<Server> => {
  const server = createServer(
    (request, response) =>
      void text(request).then((body) => {
        const { messages } = JSON.parse(body) as { messages: { content: string }[] }
        const content = JSON.stringify(verdictOn(JSON.parse(messages[1]!.content.split('\n')[1]!) as Evidence))
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ choices: [{ message: { content } }] }))
      }),
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** Nobody is asking: what was said is scored and learned from, candidates that were to come with it. */
const settled = async (pipeline: Pipeline): Promise<void> => {
  const waiting = async (): Promise<number> =>
    ((await (await fetch(`${pipeline.url}/admin/status`)).json()) as { requests: { candidatesWaiting: number } })
      .requests.candidatesWaiting
  while ((await waiting()) > 0) await pause(20)
  await pipeline.settled()
}

const trial = async (
  judge: string | null,
  candidates: number,
  seed: number,
  sessions: number,
  fresh: number,
): Promise<CandidatesRow> => {
  const began = performance.now()
  const data = mkdtempSync(join(tmpdir(), 'instar-candidates-'))
  const firstError = createFirstError()
  const pipeline = await startPipeline(
    {
      data,
      model: MODEL,
      engine: 'auto',
      database: false,
      gateway: { port: 0, candidates, candidateTokens: 100_000_000 },
      scorer: judge === null ? {} : { llm: { url: judge, model: 'listener', votes: 1 } },
      trainer: {},
      publisher: {},
    },
    { say: () => undefined, onFatal: firstError.onFatal },
  )
  try {
    const client = new OpenAI({ baseURL: `${pipeline.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const demo = new Demo(
      { client, settled: () => firstError.orFatal(settled(pipeline)) },
      { ...DEMO, seed, sessions, fresh, evaluation: fresh },
    )
    const mean = async (model: string): Promise<number> => {
      let sum = 0
      for (const { user } of demo.users) sum += await demo.satisfaction(user, model)
      return sum / demo.users.length
    }
    await settled(pipeline)
    const before = await mean('policy@0')
    await demo.run()
    const after = await mean('policy')
    return {
      judge: judge === null ? 'rules' : 'listener',
      candidates,
      seed,
      sessions: demo.sessions,
      converged: demo.users.map(({ sessionsToConverge }) => sessionsToConverge ?? '–').join(' / '),
      before: rounded(before),
      after: rounded(after),
      content: rounded(await demo.correctness('policy')),
      versions: (await pipeline.line())?.head ?? 0,
      requests: demo.requests,
      failed: demo.failed,
      seconds: Math.round((performance.now() - began) / 1000),
    }
  } finally {
    await pipeline.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

export const bench = async ({ quick = false, say = () => undefined }: CandidatesOptions = {}): Promise<Report> => {
  const judge = await startJudge()
  const url = `http://127.0.0.1:${(judge.address() as AddressInfo).port}/v1`
  const rows: CandidatesRow[] = []
  try {
    for (const seed of quick ? [1] : [1, 2, 3]) {
      for (const [by, candidates] of [
        [null, 1],
        [url, 1],
        [url, 4],
      ] as const) {
        const row = await trial(by, candidates, seed, quick ? 12 : DEMO.sessions, quick ? 12 : DEMO.fresh)
        say(JSON.stringify(row))
        rows.push(row)
      }
    }
  } finally {
    judge.closeAllConnections()
    judge.close()
  }
  return { name: 'candidates', machine: machine(), rows }
}
