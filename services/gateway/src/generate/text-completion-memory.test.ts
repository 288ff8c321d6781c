/** What a completion may cost that nobody reads: work after the client has gone, and memory of an echoed prompt. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import type { Model, ServingEngine } from '@instar/engine/port'
import { model, startRig, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'
import { BodyMemory } from '../receive/body-memory.ts'

const PROMPTS = 128
const TEXT = 'The quick brown fox jumps. '.repeat(40)

/** `onEncode` is called with the number of texts encoded so far. */
const encoding = (onEncode: (count: number) => void): Model => {
  let count = 0
  return Object.assign(Object.create(model) as Model, {
    encode(text: string): number[] {
      onEncode((count += 1))
      return model.encode(text)
    },
  })
}
const start = async (t: TestContext, options: RigOptions): Promise<Rig> => {
  const rig = await startRig(options)
  t.after(() => rig.stop())
  return rig
}
const json = { model: 'policy', prompt: Array.from({ length: PROMPTS }, (_, i) => `${i} ${TEXT}`), max_tokens: 1 }

test('no more prompts are encoded once the client has gone', async (t) => {
  const gone = new AbortController()
  let encoded = 0
  const ports = {
    model: encoding((count) => {
      encoded = count
      if (count === 4) gone.abort()
    }),
  }
  const rig = await start(t, { ports })
  await assert.rejects(rig.fetch('/v1/completions', { json, signal: gone.signal }), { name: 'AbortError' })
  // A request that is served meanwhile is one of many passes of the event loop.
  for (let i = 0; i < PROMPTS; i += 1) assert.equal((await rig.fetch('/health/live')).status, 200)
  assert.ok(encoded < PROMPTS / 2, `${encoded} prompts`)
})

test('a request for which there is no place encodes nothing', async (t) => {
  let encoded = 0
  const ports = { model: encoding((count) => (encoded = count)) }
  const rig = await start(t, { ports, settings: { maxWaiting: 1 } })
  rig.engine.waiting = 5
  assert.equal((await rig.fetch('/v1/completions', { json })).status, 429)
  assert.equal(encoded, 0)
})

const LENGTH = 1000
const TOP = 20
type Scoring = ScriptedEngine & Required<Pick<ServingEngine, 'scoreWithTop'>>
/** Each token of a prompt has as many alternatives as are asked for. */
const scoring = (script: ConstructorParameters<typeof ScriptedEngine>[1] = () => 'x'): Scoring =>
  Object.assign(new ScriptedEngine(model, script), {
    async scoreWithTop({ completion, topLogprobs }) {
      const top = (at: number) =>
        Array.from({ length: topLogprobs }, (_, i) => ({ id: 20 + ((at * 7 + i * 13) % 2000), logprob: -1.25 - i }))
      return { logprobs: Float32Array.from(completion, () => -1.25), top: completion.map((_, at) => top(at)) }
    },
  } satisfies Pick<Scoring, 'scoreWithTop'>)
const echoed = {
  model: 'policy',
  prompt: Array.from({ length: LENGTH }, (_, i) => 20 + ((i * 31) % 2000)),
  echo: true,
  logprobs: TOP,
  max_tokens: 0,
}

/** The most that requests held at a time. */
const mostHeld = (t: TestContext): (() => number) => {
  let most = 0
  const { move } = BodyMemory.prototype
  t.mock.method(BodyMemory.prototype, 'move', function (this: BodyMemory, ...given: Parameters<typeof move>) {
    move.apply(this, given)
    most = Math.max(most, this.held)
  })
  return () => most
}
const heldBy = async (rig: Rig): Promise<number> =>
  Number(/^instar_request_body_bytes (\S+)$/m.exec(await (await rig.fetch('/metrics')).text())![1])

type Logprobs = { tokens: string[]; token_logprobs: unknown[]; top_logprobs: unknown[]; text_offset: number[] }
type Piece = { choices: { text: string; finish_reason: string | null; logprobs: Logprobs }[] }

test('an echoed prompt is streamed in pieces of 256 tokens, which are together what one answer has, and counts until then', async (t) => {
  const rig = await start(t, { engine: scoring() })
  const whole = ((await (await rig.fetch('/v1/completions', { json: echoed })).json()) as Piece).choices[0]!
  const most = mostHeld(t)
  const said = await (await rig.fetch('/v1/completions', { json: { ...echoed, stream: true } })).text()
  const pieces = said
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => (JSON.parse(line.slice(6)) as Piece).choices[0]!)
  assert.deepEqual(
    pieces.map(({ logprobs, finish_reason }) => [logprobs.tokens.length, finish_reason]),
    [
      [256, null],
      [256, null],
      [256, null],
      [232, 'length'],
    ],
  )
  assert.equal(pieces.map(({ text }) => text).join(''), whole.text)
  for (const name of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const)
    assert.deepEqual(
      pieces.flatMap(({ logprobs }) => logprobs[name] as unknown[]),
      whole.logprobs[name],
    )
  assert.ok(most() > 150 * LENGTH * (1 + TOP), `${most()} bytes`)
  assert.equal(await heldBy(rig), 0)
})

test('an echoed prompt with more log-probs than a request may hold is refused before they are computed', async (t) => {
  const engine = scoring()
  const score = t.mock.method(engine, 'scoreWithTop')
  const rig = await start(t, { engine, settings: { bodyLimit: 65_536, bodiesLimit: 131_072 } })
  const response = await rig.fetch('/v1/completions', { json: { ...echoed, stream: true } })
  assert.equal(response.status, 413)
  assert.equal(score.mock.callCount(), 0)
})

test('prompts with more log-probs together than a request may hold are echoed a few at a time', async (t) => {
  // 8 of them would take 151 MB with 150 bytes for each of 126,000 log-probs, of 134 MB that one request may.
  const prompt = Array.from({ length: 6 * LENGTH }, (_, i) => 20 + ((i * 31) % 2000))
  const long = Object.assign(Object.create(model) as Model, { contextLength: prompt.length + 1 })
  const rig = await start(t, { engine: scoring(), ports: { model: long } })
  const most = mostHeld(t)
  const json = { ...echoed, stream: true, prompt: Array.from({ length: 8 }, () => prompt) }
  const said = await (await rig.fetch('/v1/completions', { json })).text()
  assert.equal(said.split('"finish_reason":"length"').length - 1, 8)
  assert.doesNotMatch(said, /"error"/)
  assert.ok(most() < 120_000_000 + 4 * 1024 * 1024, `${most()} bytes`)
})

/** A client that does not read. */
const unread = async (rig: Rig, body: object): Promise<Socket> => {
  const { hostname, port } = new URL(rig.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.pause()
  const text = JSON.stringify(body)
  const head = `POST /v1/completions HTTP/1.1\r\nHost: ${hostname}:${port}\r\ncontent-type: application/json\r\n`
  socket.write(`${head}content-length: ${text.length}\r\n\r\n${text}`)
  return socket
}

test('choices that nobody reads count as memory, wait with one listener, and end with their client', async (t) => {
  const warnings: string[] = []
  const onWarning = ({ name }: Error): void => void warnings.push(name)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const rig = await start(t, { engine: scoring() })
  const long = [...echoed.prompt, ...echoed.prompt]
  const socket = await unread(rig, { ...echoed, n: 16, stream: true, prompt: [long, long, long, long] })
  // The connection takes a part of 64 choices; of 8 a piece or more is held.
  const [least, most] = [8 * 150 * 256 * (1 + TOP), 8 * 150 * 2 * LENGTH * (1 + TOP) + 1024 * 1024]
  let held = await heldBy(rig)
  for (let i = 0; i < 500 && held < least; i += 1) held = await heldBy(rig)
  assert.ok(held >= least && held < most, `${held} bytes`)
  socket.destroy()
  for (let i = 0; i < 500 && held > 0; i += 1) held = await heldBy(rig)
  assert.equal(held, 0)
  assert.deepEqual(warnings, [])
})

test('where one choice fails, the others end', async (t) => {
  const ended: boolean[] = []
  const engine: Scoring = scoring(() => {
    const nth = engine.requests.length
    return {
      text: TEXT,
      async before(token, signal) {
        if (nth === 1 && token === 3) throw new Error('broken')
        if (nth > 1 && token === 2) {
          const over = Promise.withResolvers<void>()
          signal!.addEventListener('abort', () => over.resolve())
          await over.promise
          ended.push(true)
        }
      },
    }
  })
  const rig = await start(t, { engine })
  const json = { model: 'policy', prompt: 'Hi', n: 4, max_tokens: 16, stream: true }
  const said = await (await rig.fetch('/v1/completions', { json })).text()
  assert.match(said, /"error"/)
  assert.deepEqual(ended, [true, true, true])
})
