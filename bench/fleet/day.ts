/**
 * A generated day of conversations: when each turn is said, in ms since the day began, and what is said. Pure: the same
 * settings give the same day.
 */
import { uniform } from '@instar/policy/random'
import { USERS } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'

export const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** Weight of each hour for the begin of a conversation: few by night, most in the afternoon. */
const HOURS = [2, 1, 1, 1, 1, 2, 4, 7, 9, 10, 10, 9, 9, 10, 11, 11, 10, 9, 8, 7, 6, 5, 4, 3]
/** How long a person waits before a turn: `share` of the continuations, log-uniform between `from` and `to` ms. */
export const GAPS = [
  { name: 'within a minute', share: 0.7, from: 5_000, to: 60_000 },
  { name: 'within an hour', share: 0.2, from: 60_000, to: HOUR_MS },
  { name: 'within a day', share: 0.1, from: HOUR_MS, to: 6 * HOUR_MS },
] as const
export type GapName = (typeof GAPS)[number]['name']
/** Share of the conversations that name their session in a header. */
const NAMED = 0.2
const POOL = questions({ heldOut: true, split: 'demo', seed: 7, count: 400 })

/** A user's turn. `gap`: its wait after the turn before; null for the first. */
export type Said = { at: number; gap: GapName | null; text: string }
/** `session`: the name that its requests carry; null: none, so that the gateway must recognise it by its answers. */
export type Conversation = { session: string | null; user: string; system: string; turns: Said[] }
export type DaySettings = { conversations: number; turns: number; seed: number }

/** Every conversation ends before the day does. */
export const simulatedDay = ({ conversations, turns, seed }: DaySettings): Conversation[] => {
  const random = uniform(seed)
  return Array.from({ length: conversations }, (_, i) => {
    const gaps = Array.from({ length: turns - 1 }, () => gapOf(random))
    const length = gaps.reduce((sum, { ms }) => sum + ms, 0)
    let at = beginOf(random, DAY_MS - length)
    const user = USERS[i % USERS.length]!
    const named = random() < NAMED
    const reactions = random() < 1 / 3 ? user.complaints : user.thanks
    return {
      session: named ? `day-${seed}-${i}` : null,
      user: `person-${i % Math.max(1, Math.floor(conversations / 4))}`,
      system: user.system,
      turns: [null, ...gaps].map((gap, turn) => {
        at += gap?.ms ?? 0
        const { question } = POOL[Math.floor(random() * POOL.length)]!
        const text =
          turn % 2 === 1
            ? reactions[Math.floor(random() * reactions.length)]!
            : `${turn ? 'And this one: ' : ''}${question}`
        return { at, gap: gap?.name ?? null, text }
      }),
    }
  })
}

const gapOf = (random: () => number): { name: GapName; ms: number } => {
  let left = random()
  const kind = GAPS.find(({ share }) => (left -= share) < 0) ?? GAPS[0]
  return { name: kind.name, ms: kind.from * (kind.to / kind.from) ** random() }
}

/** Before `latest`, by the weights of the hours. */
const beginOf = (random: () => number, latest: number): number => {
  const hours = HOURS.slice(0, Math.max(1, Math.ceil(latest / HOUR_MS)))
  let left = random() * hours.reduce((sum, weight) => sum + weight, 0)
  const hour = hours.findIndex((weight) => (left -= weight) < 0)
  return Math.min((Math.max(0, hour) + random()) * HOUR_MS, Math.max(0, latest - 1))
}

/** Simulated ms since the epoch at a real time: `speed` simulated ms in each real one. */
export type Clock = { realStart: number; simulatedStart: number; speed: number }
export const simulatedAt = ({ realStart, simulatedStart, speed }: Clock, real: number): number =>
  Math.floor(simulatedStart + (real - realStart) * speed)
/** Real ms from `real` until the simulated time; 0 if it is over. */
export const realMsUntil = (clock: Clock, simulated: number, real: number): number =>
  Math.max(0, (simulated - clock.simulatedStart) / clock.speed + clock.realStart - real)
