/**
 * Effect of background candidates: the demo with one answer to each request and with four candidates, under the same
 * judge. The result is a number of sessions, which does not depend on the speed of the machine.
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
  /** Sessions of each user until three satisfying first replies in a row, separated by ` / `; –: never. */
  converged: string
  /**
   * Mean over the users of the share of satisfying first replies to held-out questions, by the base and by the head.
   */
  before: number
  after: number
  /** Share of held-out questions that the head answers correctly. */
  content: number
  versions: number
  requests: number
  failed: number
  seconds: number
}
export type Report = { name: string; machine: string; rows: CandidatesRow[] }
type CandidatesOptions = { quick?: boolean; logLine?: (line: string) => void }

/** The fields of a judge's evidence that this judge uses. `shown_answer`: of a candidate that was not shown. */
type Evidence = { answer: string; shown_answer?: string; next_state: { user: string } | null }

/** Name of the user → the hint for its complaints. */
const HINTS: Readonly<Record<string, string>> = {
  student: 'Answer in plain text.',
  ta: 'Answer in full detail with several sentences.',
  teacher: 'Answer in a warm and friendly way.',
}
const userOfComplaint = (text: string): User | undefined => USERS.find(({ complaints }) => complaints.includes(text))
const sameStyle = (a: string, b: string): boolean => USERS.every(({ satisfied }) => satisfied(a) === satisfied(b))

/**
 * A judge that recognizes the users' replies, and has no other information about the users. For an answer that was not
 * shown it decides whether the complaint about the shown answer applies to it too.
 */
const verdictOn = ({ answer, shown_answer: shown, next_state: next }: Evidence): { verdict: string; hint: string } => {
  const reply = next?.user ?? ''
  const user = userOfComplaint(reply)
  if (shown !== undefined)
    return {
      verdict: user
        ? user.satisfied(answer)
          ? 'good'
          : 'bad'
        : USERS[0]!.thanks.includes(reply) && sameStyle(answer, shown)
          ? 'good'
          : 'unclear',
      hint: '',
    }
  if (user || WRONG.some((wrong) => wrong === reply))
    return { verdict: 'bad', hint: user ? (HINTS[user.name] ?? '') : '' }
  return { verdict: reply === '' ? 'unclear' : 'good', hint: '' }
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

/** Resolves when no candidate is pending and the pipeline is settled. */
const settled = async (pipeline: Pipeline): Promise<void> => {
  const pendingCandidates = async (): Promise<number> =>
    ((await (await fetch(`${pipeline.url}/admin/status`)).json()) as { requests: { candidatesWaiting: number } })
      .requests.candidatesWaiting
  while ((await pendingCandidates()) > 0) await pause(20)
  await pipeline.settled()
}

const runTrial = async (
  judge: string | null,
  candidates: number,
  seed: number,
  sessions: number,
  fresh: number,
): Promise<CandidatesRow> => {
  const startedAt = performance.now()
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
    { logLine: () => undefined, onFatal: firstError.onFatal },
  )
  try {
    const client = new OpenAI({ baseURL: `${pipeline.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const demo = new Demo(
      { client, settled: () => firstError.orFatal(settled(pipeline)) },
      { ...DEMO, seed, sessions, fresh, evaluation: fresh },
    )
    const meanSatisfaction = async (model: string): Promise<number> => {
      let sum = 0
      for (const { user } of demo.users) sum += await demo.satisfaction(user, model)
      return sum / demo.users.length
    }
    await settled(pipeline)
    const before = await meanSatisfaction('policy@0')
    await demo.run()
    const after = await meanSatisfaction('policy')
    return {
      judge: judge === null ? 'reactions' : 'listener',
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
      seconds: Math.round((performance.now() - startedAt) / 1000),
    }
  } finally {
    await pipeline.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

export const bench = async ({ quick = false, logLine = () => undefined }: CandidatesOptions = {}): Promise<Report> => {
  const judge = await startJudge()
  const url = `http://127.0.0.1:${(judge.address() as AddressInfo).port}/v1`
  const rows: CandidatesRow[] = []
  try {
    for (const seed of quick ? [1] : [1, 2, 3]) {
      for (const [judgeUrl, candidates] of [
        [null, 1],
        [url, 1],
        [url, 4],
      ] as const) {
        const row = await runTrial(judgeUrl, candidates, seed, quick ? 12 : DEMO.sessions, quick ? 12 : DEMO.fresh)
        logLine(JSON.stringify(row))
        rows.push(row)
      }
    }
  } finally {
    judge.closeAllConnections()
    judge.close()
  }
  return { name: 'candidates', machine: machine(), rows }
}
