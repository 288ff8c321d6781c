/**
 * A gateway on loopback over HTTP, with the tiny model's tokenizer and template, a scripted engine, and a log in
 * memory.
 */
import {
  decodeRecord,
  encodeEvent,
  type Event,
  type FeedbackGiven,
  type LineStarted,
  type TurnAborted,
  type TurnCaptured,
  type VersionPublished,
} from '@instar/events'
import { openMemoryLog, putBlob, type Append, type EventLog, type LogRecord } from '@instar/log'
import type { Adapter, Model } from '@instar/engine/port'
import { createGateway, gatewayConfig, type Gateway, type GatewayPorts, type GatewaySettings } from '@instar/gateway'
import { createHash, randomBytes } from 'node:crypto'
import OpenAI from 'openai'
import { ScriptedEngine, type Script } from './scripted-engine.ts'
import { tokenizerModel } from './tokenizer-model.ts'

export const model: Model = tokenizerModel()

export type Rig = {
  url: string
  log: EventLog
  engine: ScriptedEngine
  gateway: Gateway
  client: OpenAI
  /** Adds the admin token on paths of commands. */
  fetch(path: string, init?: RequestInit & { json?: unknown }): Promise<Response>
  stop(): Promise<void>
}

export const ADMIN_TOKEN = 'admin-token-of-the-tests'
/** The headers of commands to this gateway. */
export const COMMANDING = { 'content-type': 'application/json', 'x-instar-admin-token': ADMIN_TOKEN }

export type RigOptions = {
  log?: EventLog
  script?: Script
  settings?: GatewaySettings
  ports?: Partial<GatewayPorts>
  engine?: ScriptedEngine
}

/** `ports.now` is both clocks, unless `ports.monotonic` is given, too. */
export const startRig = async ({
  log = openMemoryLog(),
  script = () => 'Hello there, how are you?',
  settings = {},
  ports = {},
  engine = new ScriptedEngine(model, script),
}: RigOptions = {}): Promise<Rig> => {
  const clocks = { now: Date.now, ...(ports.now ? { monotonic: ports.now } : {}) }
  const gateway = createGateway(
    { log, engine, model, random: (bytes) => randomBytes(bytes), toAdapter, ...clocks, ...ports },
    gatewayConfig({
      port: 0,
      logLevel: 'silent',
      appendPatienceMs: 200,
      stopGraceMs: 0,
      adminToken: ADMIN_TOKEN,
      ...settings,
    }),
  )
  const { url } = await gateway.start()
  return {
    url,
    log,
    engine,
    gateway,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }),
    fetch(path, { json, headers = {}, ...init } = {}) {
      const own = {
        ...(path.startsWith('/admin/') && !Object.hasOwn(headers, 'authorization') ? COMMANDING : {}),
        ...(headers as Record<string, string>),
      }
      if (json === undefined) return fetch(`${url}${path}`, { ...init, headers: own })
      return fetch(`${url}${path}`, {
        method: 'POST',
        ...init,
        headers: { 'content-type': 'application/json', ...own },
        body: JSON.stringify(json),
      })
    },
    stop: () => gateway.stop(),
  }
}

/** The bytes of an adapter are arbitrary here. */
export const toAdapter = (weights: Uint8Array): Adapter => ({
  sha256: sha256(weights),
  weights,
  config: new Uint8Array(0),
})
export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export const eventsOf = async (log: EventLog, topic: LogRecord['topic'] = 'turns'): Promise<Event[]> => {
  const events: Event[] = []
  for await (const batch of log.read(topic)) for (const record of batch) events.push(decodeRecord(record).event)
  return events
}

export const turnsOf = async (log: EventLog): Promise<(TurnCaptured | TurnAborted)[]> =>
  (await eventsOf(log))
    .filter(
      (event): event is TurnCaptured | TurnAborted => event.type === 'TurnCaptured' || event.type === 'TurnAborted',
    )
    .sort((a, b) => a.at - b.at)

export const feedbackOf = async (log: EventLog): Promise<FeedbackGiven[]> =>
  (await eventsOf(log)).filter((event): event is FeedbackGiven => event.type === 'FeedbackGiven')

/** The turn with this id; waits for its record. */
export const turnOf = async (log: EventLog, turn: string | null): Promise<TurnCaptured | TurnAborted> => {
  const found = (await turnsOf(log)).find((event) => event.turn === turn)
  if (!found) throw new Error(`no turn ${turn} on the log`)
  return found
}

/** Resolves when `turns` has a matching record. */
export const turnThat = async (
  log: EventLog,
  fits: (turn: TurnCaptured | TurnAborted) => boolean,
): Promise<TurnCaptured | TurnAborted> => {
  const found = Promise.withResolvers<TurnCaptured | TurnAborted>()
  const subscription = await log.subscribe({
    topics: ['turns'],
    group: 'test',
    from: 'start',
    handle(records) {
      for (const record of records) {
        const { event } = decodeRecord(record)
        if ((event.type === 'TurnCaptured' || event.type === 'TurnAborted') && fits(event)) found.resolve(event)
      }
    },
  })
  try {
    return await found.promise
  } finally {
    await subscription.stop()
  }
}

/** The log with an `append` that a test observes, delays or fails. */
export const withAppend = (
  log: EventLog,
  append: (records: readonly Append[], next: () => ReturnType<EventLog['append']>) => ReturnType<EventLog['append']>,
): EventLog =>
  new Proxy(log, {
    get(target, name) {
      if (name === 'append') return (records: readonly Append[]) => append(records, () => target.append(records))
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })

/** Writes what a publisher would write: a line, and versions on it. */
export class Publisher {
  private readonly log: EventLog
  protected prev = ''
  private number = 0

  constructor(log: EventLog) {
    this.log = log
  }

  async start(): Promise<void> {
    const event: LineStarted = {
      type: 'LineStarted',
      prev: '',
      policy: 'policy',
      mode: 'live',
      base: { name: 'tiny', sha256: model.sha256 },
      parent: null,
      settings: {},
      at: Date.now(),
    }
    await this.append(event)
  }

  /** The adapter's name. `stored: false` does not store its bytes. */
  async publish(parent: number, options: { stored?: boolean; weights?: Uint8Array } = {}): Promise<string> {
    this.number += 1
    const weights = options.weights ?? Buffer.from(`adapter ${this.number}`)
    const adapter = sha256(weights)
    const blobsAt = Date.now()
    if (options.stored !== false) await putBlob(this.log, weights, blobsAt)
    const event: VersionPublished = {
      type: 'VersionPublished',
      prev: this.prev,
      policy: 'policy',
      number: this.number,
      update: `update ${this.number}`,
      adapter,
      adapterBytes: weights.length,
      state: 'none',
      blobsAt,
      parent,
      why: 'update',
      source: null,
      figures: {},
      at: Date.now(),
    }
    await this.append(event)
    return adapter
  }

  /** Others may have moved the line since. */
  async readTip(): Promise<void> {
    for await (const batch of this.log.read('weights')) for (const record of batch) this.prev = decodeRecord(record).id
  }

  async append(event: Event): Promise<void> {
    const { id, ...record } = encodeEvent(event)
    await this.log.append([record])
    this.prev = id
  }
}

/** The `data:` lines of a stream as they arrive. */
export async function* sse(response: Response): AsyncGenerator<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(bytes, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      if (event.startsWith('data: ')) yield event.slice(6)
    }
  }
}

export const USER = (content: string): { role: 'user'; content: string } => ({ role: 'user', content })
