/**
 * Clients: unlabelled conversations through the official library, each request to a random gateway. A failed request is
 * repeated unchanged until it is answered. Answers are in the ledger.
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
  /** The answer that the request continued, as the client has it. */
  follows: string | null
  gateway: string
  /** The time from the first attempt to the end of the answer, and the number of failed attempts. */
  waitedMs: number
  failures: number
  /** When the answer had ended, ms since the epoch. */
  at: number
}

export type Ledger = {
  received: Received[]
  /** Errors of failed attempts, with their counts. */
  refusals: Map<string, number>
  /** The start time of each request without an answer yet. */
  asking: Set<number>
}

export const newLedger = (): Ledger => ({ received: [], refusals: new Map(), asking: new Set() })

export type People = {
  /** Resolves after so many further answers. Rejects when a client gives up. */
  more(turns: number): Promise<void>
  /** Resolves when every open request is answered. No client sends another one. */
  leave(): Promise<void>
}

type PeopleOptions = {
  gateways: readonly Pick<Service, 'name' | 'url'>[]
  /** Number of concurrent conversations. */
  sessions: number
  random: Random
  ledger: Ledger
  /** Turns of a conversation. Default 4. */
  turns?: number
  /** Maximum number of turns in all. Default: no maximum. */
  limit?: number
  /** Delay before a user message, ms, which leaves CPU time for training. */
  breathMs?: number
  /** Time limit for a request with its retries, ms; beyond it the test fails. */
  patience?: number
}

/** Delay before a retry. */
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
            at: Date.now(),
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

/** Conversations of a test file with different beginnings. */
let conversations = 0
