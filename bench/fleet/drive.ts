/** Sends a generated day to the gateways. Each continuation goes to another gateway than the one that answered. */
import { setTimeout as pause } from 'node:timers/promises'
import { complete, RequestError, type Message } from '../services/load.ts'
import { realMsUntil, type Clock, type Conversation } from './day.ts'
import type { Answered } from './ledger.ts'

/** `dayStart`: simulated ms since the epoch. `nextSeed`: each gives another answer. `onRefused`: at each 429. */
export type DrivePorts = {
  urls: readonly string[]
  /** Real ms that a person takes at least before a continuation, however compressed the day is. */
  leastGapMs: number
  clock: Clock
  dayStart: number
  nextSeed: () => number
  onRefused: () => void
}

/** Real ms before a request that a busy gateway refused is sent again. */
const AGAIN_MS = 500

/**
 * Resolves when the last turn is answered; rejects if a request fails. A person says nothing before the answer is read:
 * where the compressed wait is shorter than the answer, the turn is later than the day has it.
 */
export const driveDay = async (ports: DrivePorts, day: readonly Conversation[]): Promise<Answered[]> => {
  const conversations = await Promise.all(day.map((conversation, i) => converse(ports, conversation, i)))
  return conversations.flat()
}

const untilAccepted = async (
  { nextSeed, onRefused }: DrivePorts,
  url: string,
  request: Omit<Parameters<typeof complete>[1], 'seed'>,
): ReturnType<typeof complete> => {
  for (;;) {
    try {
      return await complete(url, { ...request, seed: nextSeed() })
    } catch (error) {
      if (!(error instanceof RequestError) || error.status !== 429) throw error
      onRefused()
      await pause(AGAIN_MS)
    }
  }
}

const converse = async (
  ports: DrivePorts,
  { session, user, system, turns }: Conversation,
  first: number,
): Promise<Answered[]> => {
  const { urls, clock, dayStart, leastGapMs } = ports
  const messages: Message[] = [{ role: 'system', content: system }]
  const answered: Answered[] = []
  for (const [turn, { at, gap, text }] of turns.entries()) {
    await pause(Math.max(turn === 0 ? 0 : leastGapMs, realMsUntil(clock, dayStart + at, Date.now())))
    messages.push({ role: 'user', content: text })
    const url = urls[(first + turn) % urls.length]!
    const answer = await untilAccepted(ports, url, { session, user, messages })
    messages.push({ role: 'assistant', content: answer.text })
    answered.push({
      turn: answer.timing.turn,
      session: answer.session,
      follows: answered.at(-1)?.turn ?? null,
      gap,
      named: session !== null,
    })
  }
  return answered
}
