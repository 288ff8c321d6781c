/**
 * A gateway with a scripted model behind a recording proxy, and the content of its log after the client ends: the
 * turns, their next states, and whether prompts extend sampled tokens.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import {
  decodeRecord,
  foldTurns,
  initialTurns,
  InstarError,
  readWritten,
  type Logged,
  type TurnAborted,
  type TurnCaptured,
  type TurnsEvent,
} from '@instar/events'
import { createTurnReader, openMemoryLog, type EventLog } from '@instar/log'
import type { Model } from '@instar/engine/port'
import { startRig, type Rig, type RigOptions } from '../kit/gateway.ts'
import { ScriptedEngine, type Reply } from '../kit/scripted-engine.ts'
import { tokenizerModel } from '../kit/tokenizer-model.ts'
import { becameOf, tapeOf, writeTape, type Became } from './tapes/tape.ts'
import { startWire, type Exchange, type Wire } from './wire.ts'

/** `last`: the text behind the last answer in the prompt: a user message or tool results. */
export type Say = (last: string, prompt: string) => Reply | string

export type Scene = {
  /** Without /v1. */
  url: string
  rig: Rig
  model: Model
  wire: Wire
  /** A token of the gateway's key. */
  token: string
  /** The rate limit is reached at the next request: it gets a 429, and the one two seconds later an answer. */
  exhaust(): void
  /** What each turn of the log is. */
  story(): Promise<Story>
  /** With the body of each turn as it is on the log. */
  became(): Promise<Became[]>
  /** Writes the recorded requests to tapes/ if INSTAR_RECORD is set. `client`: name and version. */
  record(name: string, client: string, hidden?: readonly (readonly [text: string, name: string])[]): Promise<void>
  stop(): Promise<void>
}

/** One turn: `session` and `next` are indexes in the order in which sessions and turns began. */
export type Told = {
  session: number
  kind: 'main' | 'side'
  status: 'complete' | 'aborted'
  next: number | null
  attempt: number
  offPrefix: boolean
  reason: string | null
  event: TurnCaptured | TurnAborted
  text: string
}
export type Story = { turns: Told[]; sessions: string[]; of<K extends keyof Told>(field: K): Told[K][] }

const TOKEN = 'sk-instar-clients-test'
const KEY = { id: 'clients', sha256: createHash('sha256').update(TOKEN).digest('hex') }
/** Requests that a key may send at once; then one every two seconds. */
const BURST = 30

export const startScene = async (
  say: Say,
  {
    contextLength = 120_000,
    limited = false,
    ...options
  }: { contextLength?: number; limited?: boolean } & Omit<RigOptions, 'engine' | 'script'> = {},
): Promise<Scene> => {
  const model = tokenizerModel(contextLength)
  const engine = new ScriptedEngine(model, (_, prompt) => say(lastWords(prompt), prompt))
  const log = options.log ?? openMemoryLog()
  const rig = await startRig({
    ...options,
    log,
    engine,
    ports: { model, ...options.ports },
    settings: { keys: [{ ...KEY, ...(limited ? { requestsPerMinute: BURST } : {}) }], ...options.settings },
  })
  const wire = await startWire(rig.url)
  return {
    url: wire.url,
    rig,
    model,
    wire,
    token: TOKEN,
    exhaust: () =>
      wire.first(async () => {
        for (let i = 0; i < BURST; i += 1)
          await fetch(`${rig.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
            body: '{}',
          })
      }),
    story: async () => (await storyOf(rig, log)).story,
    async became() {
      const { story, bodies } = await storyOf(rig, log)
      return becameOf(story, bodies)
    },
    async record(name, client, hidden = []) {
      if (process.env['INSTAR_RECORD'] === undefined) return
      const { story, bodies } = await storyOf(rig, log)
      const places = [...hidden, [rig.url, 'http://gateway'], [wire.url, 'http://gateway']] as const
      await writeFile(
        new URL(`tapes/${name}.jsonl`, import.meta.url),
        writeTape(tapeOf(client, wire.exchanges, story, becameOf(story, bodies), places)),
      )
    },
    async stop() {
      await wire.stop()
      await rig.stop()
    },
  }
}

/** All text before the first answer. */
const lastWords = (prompt: string): string => {
  const before = prompt.slice(0, prompt.length - (prompt.endsWith('assistant\n') ? 'assistant\n'.length : 0))
  return before.slice(Math.max(before.lastIndexOf('\nassistant\n'), 0))
}

/**
 * The log, folded as in the services and checked: nothing is ignored, every turn is readable, ids and log-probs have
 * one length, and the prompt is the one that the engine got.
 */
const storyOf = async (rig: Rig, log: EventLog): Promise<{ story: Story; bodies: Map<string, Uint8Array> }> => {
  const state = initialTurns()
  const events: (TurnCaptured | TurnAborted)[] = []
  for await (const batch of log.read('turns'))
    for (const record of batch) {
      const logged: Logged<TurnsEvent> = { ...record, ...decodeRecord(record) } as Logged<TurnsEvent>
      assert.equal(foldTurns(state, logged).counted, true)
      if (logged.event.type === 'TurnCaptured' || logged.event.type === 'TurnAborted') events.push(logged.event)
    }
  const reader = createTurnReader(log, (turn) => state.turns.get(turn))
  const bodies = new Map<string, Uint8Array>()
  for (const event of events) {
    assert.equal(event.ids.length, event.logprobs.length)
    assert.equal(event.tokens, 'exact')
    bodies.set(event.turn, await reader.body(event.turn))
    const prompt = (await reader.promptIds(event.turn)).join()
    assert.ok(
      rig.engine.requests.some((request) => request.prompt.join() === prompt),
      'the prompt on the log is one that the engine was given',
    )
  }
  events.sort((a, b) => a.at - b.at || a.candidate - b.candidate)
  const order = events.map(({ turn }) => turn)
  const sessions = [...new Set(events.map(({ session }) => session))]
  const turns = events.map((event): Told => {
    const known = state.turns.get(event.turn)!
    return {
      session: sessions.indexOf(event.session),
      kind: event.kind,
      status: known.status,
      next: known.next === null ? null : order.indexOf(known.next),
      attempt: known.attempt,
      offPrefix: event.offPrefix,
      reason: event.reason,
      event,
      text: readWritten(event.text),
    }
  })
  return { story: { turns, sessions, of: (field) => turns.map((turn) => turn[field]) }, bodies }
}

/** One session in which each turn is the next state of the one before and prompts extend the sampled tokens. */
export const assertOneThread = (story: Story, turns: number): void => {
  assert.deepEqual(
    story.of('session'),
    Array.from({ length: turns }, () => 0),
  )
  assert.deepEqual(
    story.of('next'),
    Array.from({ length: turns }, (_, i) => (i === turns - 1 ? null : i + 1)),
  )
  assert.deepEqual(
    story.of('kind'),
    Array.from({ length: turns }, () => 'main'),
  )
  assert.deepEqual(
    story.of('status'),
    Array.from({ length: turns }, () => 'complete'),
  )
  assert.deepEqual(
    story.of('offPrefix'),
    Array.from({ length: turns }, () => false),
  )
  assert.deepEqual(
    story.of('reason'),
    Array.from({ length: turns }, () => null),
  )
}

/** The usage that clients got equals that of the turns, in order. */
export const assertUsage = (story: Story, told: readonly { input: number; output: number }[]): void =>
  assert.deepEqual(
    told,
    story.turns.map(({ event }) => ({ input: event.prompt.length, output: event.ids.length })),
  )

const TERMINAL =
  /(data: \[DONE\]|event: response\.(completed|incomplete|failed)\ndata: [^\n]*|event: (message_stop|error)\ndata: [^\n]*)\n\n$/
const lastNumber = (text: string, pattern: RegExp): number => Number([...text.matchAll(pattern)].at(-1)?.[1] ?? -1)

/** Every answer that was not dropped was sent completely, with its usage if requested. */
export const assertAnswered = ({ wire }: Scene, story: Story): void => {
  for (const { turn, answer, status, dropped, body } of wire.exchanges) {
    if (turn === null || status !== 200 || dropped) continue
    const told = story.turns.find(({ event }) => event.turn === turn)
    assert.ok(told)
    const { stream = false, stream_options: options } = JSON.parse(body) as {
      stream?: boolean
      stream_options?: { include_usage?: boolean }
    }
    if (stream) assert.match(answer, TERMINAL)
    const counted = !stream || told.event.dialect !== 'chat' || options?.include_usage === true
    if (told.status === 'complete' && counted)
      assert.deepEqual(
        [
          lastNumber(answer, /"(?:input|prompt)_tokens":(\d+)/g),
          lastNumber(answer, /"(?:output|completion)_tokens":(\d+)/g),
        ],
        [told.event.prompt.length, told.event.ids.length],
      )
  }
}

/** Requests for answers. */
/** Each of these turns is followed by the next one of them. */
export const assertChained = ({ turns }: Story, places: readonly number[]): void =>
  assert.deepEqual(
    places.map((i) => turns[i]!.next),
    [...places.slice(1), null],
  )

export const posts = (wire: Wire): Exchange[] => wire.exchanges.filter(({ method }) => method === 'POST')

/** A response whose engine fails before token `at`. */
export const dying = (text: string, at: number): Reply => ({
  text,
  before: (i) => {
    if (i === at) throw new InstarError('engine_lost', 'the engine is gone')
  },
})

/** The markup of calls as the model writes it. */
export const calls = (...list: readonly (readonly [name: string, args: string])[]): string =>
  list
    .map(([name, args]) => `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${args}}\n</tool_call>`)
    .join('\n')
