/**
 * GRPO groups from clients that get one answer each: `instar up` with a judge and INSTAR_CANDIDATES, conversations, and
 * the resulting log, batch and tables.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ask, type Answer } from '../kit/people.ts'
import { dataFolder, done, sql, up, type Up } from './process.ts'

const CANDIDATES = 4
const SESSIONS = 5

type Shown = { answer: string; shown_answer?: string; next_state: { user: string } | null }
type Turn = {
  turn_id: string
  group_id: string
  candidate: number
  candidates: number
  shown: boolean
  version: number
  next_state: string
  reward: number | null
}

describe('candidates in the background', { timeout: 280_000 }, () => {
  const data = dataFolder()
  const judged: Shown[] = []
  let judge: Server
  let place: Up
  const answers: Answer[] = []

  before(async () => {
    // The judge prefers an even number of characters, which some of four sampled candidates have and some do not.
    judge = createServer(
      (request, response) =>
        void text(request).then((body) => {
          const { messages } = JSON.parse(body) as { messages: { content: string }[] }
          const evidence = JSON.parse(messages[1]!.content.split('\n')[1]!) as Shown
          judged.push(evidence)
          const content = JSON.stringify({ verdict: evidence.answer.length % 2 === 0 ? 'good' : 'bad', hint: '' })
          response
            .writeHead(200, { 'content-type': 'application/json' })
            .end(JSON.stringify({ choices: [{ message: { content } }] }))
        }),
    ).listen(0, '127.0.0.1')
    await once(judge, 'listening')
    place = await up(data, {
      INSTAR_CANDIDATES: String(CANDIDATES),
      INSTAR_JUDGE_URL: `http://127.0.0.1:${(judge.address() as AddressInfo).port}/v1`,
      INSTAR_JUDGE_MODEL: 'even',
    })
  })
  after(async () => {
    await place.stop()
    judge.closeAllConnections()
    judge.close()
  })

  test('a client gets one answer to each request, and groups of candidates become a version', async () => {
    for (let i = 0; i < SESSIONS; i += 1) {
      const session = `talk-${i}`
      const first = await ask(place.client, [{ role: 'user', content: `What is ${i} + 3?` }], { session })
      const second = await ask(
        place.client,
        [
          { role: 'user', content: `What is ${i} + 3?` },
          { role: 'assistant', content: first.text },
          { role: 'user', content: 'Thank you. And one more?' },
        ],
        { session },
      )
      answers.push(first, second)
    }
    for (
      const until = Date.now() + 100_000;
      (await done<{ version: number }[]>({ data, url: place.ready.url }, 'versions')).length < 2;
      await pause(200)
    )
      ok(Date.now() < until, `no version: ${place.said()}`)
  })

  test('candidates that were not shown are judged by the next state of the shown one', () => {
    const beside = judged.filter(({ shown_answer: shown }) => shown !== undefined)
    ok(beside.length >= 3 * (CANDIDATES - 1), `${beside.length}`)
    const texts = new Set(answers.map(({ text: said }) => said.trim()))
    for (const { shown_answer: shown, next_state: next } of beside) {
      ok(texts.has(shown!.trim()), shown)
      equal(next?.user, 'Thank you. And one more?')
    }
  })

  test('the tables separate shown and other candidates, and a batch takes whole groups with their mean as baseline', async () => {
    const where = { data, url: place.ready.url }
    const turns = await sql<Turn>(
      where,
      'select t.turn_id, group_id, candidate, candidates, shown, t.version, next_state, s.reward from turns t left join scores s on s.turn_id = t.turn_id',
    )
    const shown = turns.filter((turn) => turn.shown)
    deepEqual(shown.map(({ turn_id: turn }) => turn).sort(), answers.map(({ turn }) => turn).sort())
    ok(shown.every(({ candidate, candidates }) => candidate === 0 && candidates === CANDIDATES))
    const byTurn = new Map(turns.map((turn) => [turn.turn_id, turn]))
    const trained = await sql<{ turn_id: string; reward: number; baseline: number; advantage: number }>(
      where,
      'select turn_id, reward, baseline, advantage from version_turns where version = 1',
    )
    const groups = Object.values(Object.groupBy(trained, ({ turn_id: turn }) => byTurn.get(turn)!.group_id))
    equal(trained.length, groups.length * CANDIDATES)
    for (const group of groups) {
      const mean = group!.reduce((sum, { reward }) => sum + reward, 0) / CANDIDATES
      for (const { reward, baseline, advantage } of group!) deepEqual([baseline, advantage], [mean, reward - mean])
      deepEqual(new Set(group!.map(({ turn_id: turn }) => byTurn.get(turn)!.candidate)), new Set([0, 1, 2, 3]))
      equal(new Set(group!.map(({ turn_id: turn }) => byTurn.get(turn)!.version)).size, 1)
    }
    ok(
      groups.some((group) => new Set(group!.map(({ reward }) => reward)).size === 2),
      'some candidates of a request differ',
    )
    const [metrics] = await sql<{ turns: number; beside: boolean }>(
      where,
      'select sum(turns)::int as turns, sum(sampled) = (select count(*) from turns where not shown) as beside from version_metrics',
    )
    deepEqual(metrics, { turns: answers.length, beside: true })
  })

  test('verify and replay give the same versions', async () => {
    const where = { data, url: place.ready.url }
    equal((await done<{ ok: boolean }>(where, 'verify', 'all')).ok, true)
    equal((await done<{ equal: boolean }>(where, 'replay', '--branch', 'again')).equal, true)
  })
})
