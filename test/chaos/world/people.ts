/**
 * Clients: conversations through the official library, each request to whichever gateway chance chooses, no label on
 * any of them. A request that fails is sent again, as it is, until it is answered. What was answered is in the ledger.
 */
import OpenAI from 'openai'
import { setTimeout as pause } from 'node:timers/promises'
import { integer, type Random } from '../../../models/tiny/recipe/random.ts'
import { ask, askWhole, question, reaction, type Messages } from '../../kit/people.ts'
import type { Service } from './service.ts'

export type Received = {
  turn: string
  session: string
  version: number
  text: string
  /** The answer that the request continued, as its client knows. */
  follows: string | null
  gateway: string
  /** From the first try to the whole answer, and how many tries did not give it. */
  waitedMs: number
  failures: number
}

export type Ledger = {
  received: Received[]
  /** What failed tries said, with how often. */
  refusals: Map<string, number>
  /** Sent and not answered yet: since when. */
  asking: Set<number>
}

export const newLedger = (): Ledger => ({ received: [], refusals: new Map(), asking: new Set() })

export type People = {
  /** Resolves when so many more turns have been answered. Rejects when somebody gave up. */
  more(turns: number): Promise<void>
  /** Resolves when everybody has had the answer that they wait for. Nobody begins anything new. */
  leave(): Promise<void>
}

type PeopleOptions = {
  gateways: readonly Service[]
  /** How many talk at once. */
  sessions: number
  random: Random
  ledger: Ledger
  /** Turns of a conversation. Default 4. */
  turns?: number
  /** Together no more than so many turns. Default: until they leave. */
  limit?: number
  /** Before a person says something, ms: leaves the machine time to learn. */
  breathMs?: number
  /** A request that is not answered for so long, tries included, ends the test, ms. */
  patience?: number
}

/** Before the same request is sent again. */
const AGAIN_MS = 200
const THANKS = 'Thanks, that is just how I like it.'

export const startPeople = ({
  gateways,
  sessions,
  random,
  ledger,
  turns = 4,
  limit = Infinity,
  breathMs = 0,
  patience = 120_000,
}: PeopleOptions): People => {
  const clients = gateways.map(({ name, url }) => ({
    name,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: patience }),
  }))
  const waiters: { at: number; held: PromiseWithResolvers<void> }[] = []
  let leaving = false
  let begun = 0
  let fault: Error | null = null

  const tell = (): void => {
    for (const { at, held } of waiters) {
      if (fault) held.reject(fault)
      else if (ledger.received.length >= at) held.resolve()
    }
  }

  const say = async (messages: Messages, follows: string | null, user: string): Promise<Received> => {
    const since = Date.now()
    ledger.asking.add(since)
    try {
      for (let failures = 0; ; failures += 1) {
        const { name, client } = clients[integer(random, 0, clients.length - 1)]!
        try {
          const answer = await (integer(random, 0, 1) === 0 ? askWhole : ask)(client, messages, { user, maxTokens: 16 })
          const received = {
            turn: answer.turn,
            session: answer.session,
            version: answer.version,
            text: answer.text,
            follows,
            gateway: name,
            waitedMs: Date.now() - since,
            failures,
          }
          ledger.received.push(received)
          tell()
          return received
        } catch (error) {
          const { message, code } = error as { message: string; code?: string }
          const why = code ?? message.slice(0, 60)
          ledger.refusals.set(why, (ledger.refusals.get(why) ?? 0) + 1)
          if (error instanceof OpenAI.BadRequestError || Date.now() - since > patience)
            throw new Error(`a person gave up after ${failures + 1} tries and ${Date.now() - since} ms: ${message}`, {
              cause: error,
            })
          await pause(AGAIN_MS)
        }
      }
    } finally {
      ledger.asking.delete(since)
    }
  }

  const converse = async (): Promise<void> => {
    const i = conversations++
    const user = `person ${i % 7}`
    const messages: Messages = [{ role: 'user', content: question(i) }]
    let last: Received | null = null
    for (let n = 0; n < turns && !leaving && begun < limit; n += 1) {
      begun += 1
      if (breathMs > 0) await pause(breathMs * random())
      last = await say(messages, last?.turn ?? null, user)
      messages.push(
        { role: 'assistant', content: last.text },
        { role: 'user', content: n === 0 ? reaction(i).says : n % 2 === 1 ? THANKS : question(100_000 * n + i) },
      )
    }
  }

  const everybody = Promise.all(
    Array.from({ length: sessions }, async () => {
      while (!leaving && begun < limit) await converse()
    }),
  ).catch((error: unknown) => {
    fault ??= error as Error
    leaving = true
    tell()
  })

  return {
    more(count) {
      const held = Promise.withResolvers<void>()
      waiters.push({ at: ledger.received.length + count, held })
      tell()
      return held.promise
    },
    async leave() {
      leaving = limit === Infinity || leaving
      await everybody
      if (fault) throw fault
    },
  }
}

/** Conversations of a test file, none of which begins as another does. */
let conversations = 0
