/**
 * A gateway with many streams while its version changes, by publications on the log and rollbacks through the admin
 * API.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { decodeRecord, readWritten, type TurnAborted, type TurnCaptured } from '@instar/events'
import { createTurnReader, getBlob, openEmbeddedLog } from '@instar/log'
import { adapterFromWeights, startServing } from '@instar/policy'
import { ADMIN_TOKEN, sse } from '../../kit/gateway.ts'
import { writeRandomModel } from '../../kit/random-model.ts'
import type { Order, Told } from './child.ts'

/** A period with evenly spaced moves; without moves it is the reference. */
type Stretch = { seconds: number; publishes: number; rollbacks: number }
/** `version`: that of the header. `fault`: the error, or null. `stretch`: the period in which it began. */
export type Stream = {
  stretch: number
  version: number
  turn: string
  text: string
  fault: string | null
  firstMs: number
  allMs: number
  tokens: number
}
/** From the record (of a rollback: from the request) until the gateway reports that it serves the version. */
type Move = { to: number; rollback: boolean; servedMs: number }
type Moved = { streams: Stream[]; moves: Move[]; mixed: Mixed }
/** The result of computing the log-probs of each stream again under the version of its header. */
type Mixed = { streams: number; tokens: number; versions: number; worst: number; other: number; wrong: string[] }

const SPEAKERS = 100
const LONGEST = 80
/** Differences between the same tokens under the same weights in batches of other sizes; nats. */
const SAME = 1e-3

export const moving = async (
  stretches: readonly Stretch[],
  say: (line: string) => void = () => undefined,
): Promise<Moved> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-moves-'))
  const model = writeRandomModel(join(folder, 'model'))
  const logFolder = join(folder, 'log')
  const child = fork(join(import.meta.dirname, 'child.ts'), [logFolder, model], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const ended = exited.then(([code]) => {
    throw new Error(`the gateway ended with ${String(code)}`)
  })
  ended.catch(() => undefined)
  /** The next message of the gateway. */
  const heard = async <T extends Told>(): Promise<T> => {
    const [told] = (await Promise.race([once(child, 'message'), ended])) as [T]
    return told
  }
  const publish = async (parent: number): Promise<void> => {
    const told = heard<{ published: string }>()
    child.send({ publish: { parent } } satisfies Order)
    await told
  }
  try {
    const { url } = await heard<{ url: string }>()
    const now = { stretch: 0, over: false }
    const streams: Stream[] = []
    const speaking = Array.from({ length: SPEAKERS }, async (_, speaker) => {
      for (let i = 0; !now.over; i += 1)
        streams.push({ ...(await speak(url, speaker * 100_000 + i)), stretch: now.stretch })
    })
    const moves: Move[] = []
    for (const [at, stretch] of stretches.entries()) {
      now.stretch = at
      moves.push(...(await movesOf(url, stretch, publish)))
      say(
        `${stretch.publishes + stretch.rollbacks} moves in ${stretch.seconds} s: ${streams.filter((one) => one.stretch === at).length} streams`,
      )
    }
    now.over = true
    await Promise.all(speaking)
    child.disconnect()
    await exited
    return { streams, moves, mixed: await mixedIn(logFolder, model, streams) }
  } finally {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

const serving = async (url: string): Promise<number> =>
  ((await (await fetch(`${url}/health/ready`)).json()) as { version: number }).version

/** Evenly over the period; after every few publications a rollback by two versions. */
const movesOf = async (
  url: string,
  { seconds, publishes, rollbacks }: Stretch,
  publish: (parent: number) => Promise<void>,
): Promise<Move[]> => {
  const moves: Move[] = []
  const count = publishes + rollbacks
  const begun = performance.now()
  let head = await serving(url)
  let published = Math.max(0, head)
  for (let i = 1; i <= count; i += 1) {
    await pause(Math.max(0, begun + (1000 * seconds * (i - 0.5)) / count - performance.now()))
    const from = performance.now()
    const rollback = Math.floor((i * rollbacks) / count) > Math.floor(((i - 1) * rollbacks) / count)
    if (rollback) {
      head = Math.max(0, published - 2)
      const response = await fetch(`${url}/admin/rollback`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-instar-admin-token': ADMIN_TOKEN },
        body: JSON.stringify({ version: head, keepLearning: true }),
      })
      if (!response.ok) throw new Error(`rollback to ${head}: ${await response.text()}`)
    } else {
      await publish(head)
      published = await newest(url)
      head = published
    }
    for (const until = performance.now() + 20_000; (await serving(url)) !== head; await pause(2))
      if (performance.now() > until) throw new Error(`version ${head} is not served`)
    moves.push({ to: head, rollback, servedMs: performance.now() - from })
  }
  await pause(Math.max(0, begun + 1000 * seconds - performance.now()))
  return moves
}

/** The last published number, once the gateway has read it. */
const newest = async (url: string): Promise<number> => {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  return Math.max(...data.map(({ id }) => Number(id.split('@')[1] ?? 0)))
}

const speak = async (url: string, seed: number): Promise<Omit<Stream, 'stretch'>> => {
  const begun = performance.now()
  const said: Omit<Stream, 'stretch'> = {
    version: -1,
    turn: '',
    text: '',
    fault: null,
    firstMs: 0,
    allMs: 0,
    tokens: 0,
  }
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        model: 'policy',
        stream: true,
        seed,
        max_tokens: LONGEST,
        stream_options: { include_usage: true },
        messages: [{ role: 'user', content: `Speak, ${seed}.` }],
      }),
    })
    if (response.status !== 200) return { ...said, fault: `${response.status} ${await response.text()}` }
    said.version = Number(response.headers.get('x-instar-version'))
    said.turn = response.headers.get('x-instar-turn-id') ?? ''
    let last = ''
    let finished = false
    for await (const line of sse(response)) {
      said.firstMs ||= performance.now() - begun
      last = line
      if (line === '[DONE]') break
      const {
        choices = [],
        usage,
        error,
      } = JSON.parse(line) as {
        choices?: { delta: { content?: string }; finish_reason: string | null }[]
        usage?: { completion_tokens: number } | null
        error?: unknown
      }
      if (error !== undefined) return { ...said, fault: line }
      said.text += choices[0]?.delta.content ?? ''
      finished ||= typeof choices[0]?.finish_reason === 'string'
      said.tokens = usage?.completion_tokens ?? said.tokens
    }
    said.allMs = performance.now() - begun
    return last === '[DONE]' && finished ? said : { ...said, fault: `a stream without its end: ${last}` }
  } catch (error) {
    return { ...said, fault: String(error) }
  }
}

/** Whether the tokens of each stream, as on the log, have these log-probs under the version of its header. */
const mixedIn = async (folder: string, modelFolder: string, streams: readonly Stream[]): Promise<Mixed> => {
  const log = await openEmbeddedLog({ folder, readOnly: true })
  const engine = await startServing({ model: modelFolder, rows: 8, slots: 4, threads: 1 })
  try {
    const adapters = new Map<number, string | null>([[0, null]])
    for await (const records of log.read('weights'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type !== 'VersionPublished') continue
        adapters.set(event.number, event.adapter)
        await engine.load(adapterFromWeights(await getBlob(log, event.adapter, event.blobsAt)))
      }
    const positions = new Map<string, { partition: number; offset: number }>()
    const turns = new Map<string, TurnCaptured | TurnAborted>()
    for await (const records of log.read('turns'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type !== 'TurnCaptured' && event.type !== 'TurnAborted') continue
        positions.set(event.turn, record)
        turns.set(event.turn, event)
      }
    const reader = createTurnReader(log, (turn) => positions.get(turn))
    const mixed: Mixed = {
      streams: 0,
      tokens: 0,
      versions: new Set(streams.map(({ version }) => version)).size,
      worst: 0,
      other: Infinity,
      wrong: [],
    }
    for (const { turn, version, text, fault } of streams) {
      if (fault !== null) continue
      const record = turns.get(turn)
      if (
        record?.type !== 'TurnCaptured' ||
        record.version !== version ||
        record.adapter !== adapters.get(version) ||
        record.ids.length !== record.logprobs.length ||
        readWritten(record.text) !== text
      ) {
        mixed.wrong.push(`${turn}: the record is not of the stream of version ${version}`)
        continue
      }
      const prompt = await reader.promptIds(turn)
      const off = async (adapter: string | null): Promise<number[]> => {
        const scored = await engine.score({
          prompt,
          completion: record.ids,
          adapter,
          temperature: record.sampling.temperature,
        })
        return record.logprobs.map((logprob, i) => Math.abs(logprob - scored[i]!))
      }
      const worst = Math.max(...(await off(record.adapter)))
      mixed.streams += 1
      mixed.tokens += record.ids.length
      mixed.worst = Math.max(mixed.worst, worst)
      if (!(worst < SAME))
        mixed.wrong.push(`${turn}: a token that version ${version} did not sample, ${worst} nats off`)
      // Whether neighbouring versions would give other log-probs, for some streams.
      if (mixed.streams % 50 === 0 && record.ids.length > 8)
        for (const neighbour of [version - 1, version + 1]) {
          const adapter = adapters.get(neighbour)
          if (adapter !== undefined) mixed.other = Math.min(mixed.other, Math.max(...(await off(adapter))))
        }
    }
    return mixed
  } finally {
    await engine.close()
    await log.close()
  }
}
