/** Common parts of the scripted engines: an HTTP server on loopback with configurable faults. */
import type { Model } from '@instar/engine/port'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Body = Record<string, unknown>
export type Seen = { path: string; body: Body; headers: IncomingMessage['headers'] }

/** Deviations from the engine's behaviour; unset fields mean the engine's own. */
export type Behaviour = {
  say: (prompt: string) => string
  /** Awaited before token i; an exception breaks the connection. */
  before?: (token: number, seen: Seen) => Promise<void> | void
  /** Awaited before a generation is answered. A status other than 200 is the response. */
  admit?: (seen: Seen) => Promise<number | null> | number | null
  /** As `admit`, of a request for the log-probs of given tokens. */
  admitScore?: () => number
  /** As `admit`, of a request for the log-probs of given next tokens. */
  admitNext?: (seen: Seen) => Promise<number | null> | number | null
  withoutIds?: boolean
  withoutLogprobs?: boolean
  /** The number of tokens that usage reports. */
  count?: (tokens: number) => number
  /** Adapters are accepted and not applied. */
  ignoresAdapters?: boolean
  /** Log-probs are those of temperature 1 without filters, whatever was requested. */
  rawLogprobs?: boolean
  refusesLoad?: string
  /** The response to every request with a grammar. */
  refusesGrammar?: string
  /** A grammar is accepted and ignored. */
  ignoresGrammars?: boolean
  /** All log-probs of the base are off by this. */
  offset?: number
}

export class Cut extends Error {}

export abstract class ScriptedServer {
  readonly model: Model
  readonly seen: Seen[] = []
  connections = 0
  /** Answers whose client disconnected. */
  left = 0
  behaviour: Behaviour
  private server: Server | null = null
  private port = 0

  constructor(model: Model, behaviour: Behaviour) {
    this.model = model
    this.behaviour = behaviour
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** A second start uses the same port. */
  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      void this.serve(request, response)
    })
    this.server.on('connection', () => {
      this.connections += 1
    })
    this.server.listen(this.port, '127.0.0.1')
    await once(this.server, 'listening')
    this.port = (this.server.address() as AddressInfo).port
    return this
  }

  /** Breaks all connections. */
  async kill(): Promise<void> {
    if (!this.server) return
    const closed = once(this.server, 'close')
    this.server.close()
    this.server.closeAllConnections()
    this.server = null
    await closed
  }

  /** Generation requests without those of probes. */
  asked(path: string): Seen[] {
    return this.seen.filter((one) => one.path === path && !this.isProbe(one.body))
  }

  protected abstract isProbe(body: Body): boolean
  protected abstract answer(seen: Seen, response: ServerResponse): Promise<void>

  /** The log-prob of an id under an adapter: constant, different for each adapter. */
  protected logprob(id: number, adapter: string | null, sampling: { temperature: number; topK: number }): number {
    const { rawLogprobs, ignoresAdapters, offset = 0 } = this.behaviour
    if (!rawLogprobs && sampling.topK === 1) return 0
    return logprobOf(id, ignoresAdapters ? null : adapter) - offset
  }

  /** The log-probs of the token after id `first`. The script's tokens are equally likely at all temperatures. */
  protected second(
    id: number,
    adapter: string | null,
    sampling: { temperature: number; topK: number },
  ): { id: number; logprob: number } {
    return {
      id: id === 7 ? 8 : 7,
      logprob: this.logprob(id, adapter, sampling) - 4 / (this.behaviour.rawLogprobs ? 1 : sampling.temperature || 1),
    }
  }

  /** The text of an answer; under a grammar with a single word, that word. */
  protected spoken(prompt: string, grammar: unknown): string {
    const [, word] = /^root ::= "([^"]*)"$/.exec(String(grammar)) ?? []
    return word === undefined || this.behaviour.ignoresGrammars ? this.behaviour.say(prompt) : word
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.once('close', () => {
      if (!response.writableFinished) this.left += 1
    })
    try {
      let text = ''
      for await (const bytes of request) text += String(bytes)
      const seen: Seen = {
        path: request.url ?? '',
        body: text === '' ? {} : (JSON.parse(text) as Body),
        headers: request.headers,
      }
      this.seen.push(seen)
      await this.answer(seen, response)
    } catch (error) {
      if (!(error instanceof Cut)) throw error
      response.destroy()
    }
  }
}

/** From −0.1 to −2.6, by id and adapter. */
export const logprobOf = (id: number, adapter: string | null): number =>
  -((createHash('sha1').update(`${id} ${adapter}`).digest().readUInt16LE(0) % 251) + 10) / 100

export const json = (response: ServerResponse, status: number, body: unknown): void => {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** Resolves when the bytes are handed to the socket, or the connection is closed. */
export const event = async (response: ServerResponse, data: unknown): Promise<void> => {
  if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' })
  if (response.destroyed) throw new Cut('the client is gone')
  await new Promise<void>((resolve) => {
    response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`, () => resolve())
  })
}
