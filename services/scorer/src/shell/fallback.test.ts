/** A judging model behind a real HTTP server that fails, lies and recovers, with the reactions judge behind it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { createJudges, judgeTurn, scorerConfig, type Judge } from '../app.ts'
import { Breaker, Breakers, COMPARED, MOST_KEYS } from '../core/breaker.ts'

/** What the server does with a request; it may be changed while it runs. */
type Server = { url: string; asked: number; does: 'good' | 'bad' | 'fail' | 'nonsense' }

const startServer = async (t: TestContext): Promise<Server> => {
  const state: Server = { url: '', asked: 0, does: 'good' }
  const server = createServer((request, response) => {
    state.asked += 1
    request.resume()
    const content = state.does === 'nonsense' ? 'I cannot tell.' : JSON.stringify({ verdict: state.does, hint: '' })
    response
      .writeHead(state.does === 'fail' ? 503 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ choices: [{ message: { content } }] }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  return state
}

type Rig = {
  judges: Judge[]
  lines: string[]
  clock: { now: number }
  say: (user: string, key?: string) => Promise<[number | null, string]>
}
const rig = (url: string, more: object = {}): Rig => {
  const config = scorerConfig.parse({ llm: { url, votes: 1, firstRetryMs: 1, retryMs: 1000, ...more } })
  const clock = { now: 0 }
  const lines: string[] = []
  const judges = createJudges(config, { now: () => clock.now, logLine: (line) => lines.push(line) })
  const say = async (user: string, key?: string): Promise<[number | null, string]> => {
    const evidence = {
      key: key ?? null,
      request: 'What is 7 plus 6?',
      answer: '13',
      calls: false,
      next: { user, tools: '' },
    }
    const { reward, verdicts } = await judgeTurn(judges, { feedback: null }, evidence, new AbortController().signal)
    return [reward, verdicts.at(-1)!.judge.split('-')[0]!]
  }
  return { judges, lines, clock, say }
}
const downOf = ({ judges }: Rig) => judges[0]?.steppedDown?.() ?? null

test('after six failed attempts the reactions judge judges, and the model again once it answers', async (t) => {
  const server = await startServer(t)
  const { judges, lines, clock, say } = rig(server.url)
  assert.deepEqual(await say('Thanks!'), [1, 'llm'])
  server.does = 'fail'
  assert.deepEqual(await say('Thanks!'), [1, 'reactions'], 'no turn is lost')
  assert.equal(server.asked, 1 + 6)
  assert.equal(judges[0]!.steppedDown!(), 'failed')
  assert.deepEqual(await say('No, that is wrong.'), [-1, 'reactions'])
  assert.equal(server.asked, 7, 'not asked before retryMs')
  clock.now = 1000
  assert.deepEqual(await say('Thanks!'), [1, 'reactions'])
  assert.equal(server.asked, 8, 'tried with one attempt')
  server.does = 'good'
  assert.deepEqual(await say('Thanks!'), [1, 'reactions'])
  clock.now = 2000
  assert.deepEqual(await say('Thanks!'), [1, 'llm'])
  assert.deepEqual(await say('Thanks!'), [1, 'llm'])
  assert.equal(judges[0]!.steppedDown!(), null)
  assert.equal(lines.filter((line) => /reactions judge judges until it recovers/u.test(line)).length, 1)
  assert.equal(lines.filter((line) => /in force again/u.test(line)).length, 1)
})

test('the model is tried again when the clock was set back', async (t) => {
  const server = await startServer(t)
  const { clock, say } = rig(server.url)
  clock.now = 1_000_000
  server.does = 'fail'
  assert.deepEqual(await say('Thanks!'), [1, 'reactions'])
  server.does = 'good'
  clock.now = 0
  await say('Thanks!')
  assert.deepEqual(await say('Thanks!'), [1, 'llm'])
})

test('without the fallback a judge that fails costs every turn', async (t) => {
  const server = await startServer(t)
  server.does = 'fail'
  const { say } = rig(server.url, { failures: 0, giveUpMs: 0 })
  for (let i = 0; i < 8; i += 1) assert.deepEqual(await say('Thanks!'), [null, 'llm'])
})

test('replies that are no verdict are failures', async (t) => {
  const server = await startServer(t)
  server.does = 'nonsense'
  const one = rig(server.url)
  for (let i = 0; i < 5; i += 1) assert.deepEqual(await one.say('Thanks!'), [null, 'llm'])
  assert.deepEqual(await one.say('Thanks!'), [1, 'reactions'])
  assert.equal(downOf(one), 'failed')
})

test('a judge that praises whatever people say is replaced; without the bound it rewards each complaint', async (t) => {
  const server = await startServer(t)
  const [guarded, unguarded] = [rig(server.url), rig(server.url, { agreement: 0 })]
  for (let i = 0; i < COMPARED; i += 1)
    for (const one of [guarded, unguarded]) await one.say(i % 4 === 0 ? 'Thanks!' : 'No, that is wrong.')
  assert.equal(downOf(guarded), 'drifted')
  assert.equal(downOf(unguarded), null)
  assert.deepEqual(await guarded.say('No, that is wrong.'), [-1, 'reactions'])
  assert.deepEqual(await unguarded.say('No, that is wrong.'), [1, 'llm'])
  server.does = 'bad'
  for (let i = 0; i < COMPARED && downOf(guarded) !== null; i += 1) {
    guarded.clock.now += 1000
    assert.equal((await guarded.say('No, that is wrong.'))[0], -1)
  }
  assert.equal(downOf(guarded), null, 'it recovers when its opinions agree again')
})

test('replies that are no verdict, and opinions against people, count for the key of the turn alone', async (t) => {
  const server = await startServer(t)
  server.does = 'nonsense'
  const { judges, clock, say } = rig(server.url)
  for (let i = 0; i < 6; i += 1) await say('Thanks!', 'odd')
  assert.deepEqual(await say('Thanks!', 'odd'), [1, 'reactions'])
  assert.equal(judges[0]!.steppedDown!(), 'failed')
  server.does = 'good'
  assert.deepEqual(await say('Thanks!', 'other'), [1, 'llm'], 'the model judges turns of other keys')
  assert.deepEqual(await say('Thanks!'), [1, 'llm'])
  assert.deepEqual(await say('Thanks!', 'odd'), [1, 'reactions'])
  for (let i = 0; i < COMPARED; i += 1) await say('No, that is wrong.', 'contrary')
  assert.deepEqual(await say('No, that is wrong.', 'contrary'), [-1, 'reactions'])
  assert.deepEqual(await say('Thanks!', 'other'), [1, 'llm'])
  // An endpoint that does not answer fails for all keys.
  server.does = 'fail'
  clock.now = 5000
  assert.deepEqual(await say('Thanks!', 'other'), [1, 'reactions'])
  const { asked } = server
  assert.deepEqual(await say('Thanks!', 'new'), [1, 'reactions'])
  assert.equal(server.asked, asked)
})

test('the breakers of the keys that were heard last are kept, at most MOST_KEYS', () => {
  const breakers = new Breakers({ failures: 1, agreement: 0, retryMs: 1000 })
  for (let i = 0; i < MOST_KEYS; i += 1) breakers.failed(`key ${i}`, false, 0)
  assert.deepEqual([breakers.size, breakers.downFor('key 0'), breakers.downFor(null)], [MOST_KEYS, 'failed', null])
  assert.equal(breakers.asks('key 0', 1), false)
  breakers.failed('one more', false, 0)
  assert.equal(breakers.size, MOST_KEYS)
  assert.deepEqual(
    ['key 0', 'key 1'].map((key) => breakers.downFor(key)),
    ['failed', null],
  )
})

test('a drift is decided on COMPARED opinions, at the bound and not above', () => {
  const settings = { failures: 0, agreement: 0.5, retryMs: 1 }
  for (const [alike, down] of [
    [COMPARED / 2, null],
    [COMPARED / 2 - 1, 'drifted'],
  ] as const) {
    const breaker = new Breaker(settings)
    for (let i = 0; i < COMPARED; i += 1) {
      assert.equal(breaker.down, null)
      breaker.answered(i < alike, 0)
      breaker.answered(null, 0)
    }
    assert.equal(breaker.down, down)
  }
})
