/** The sessions of a run: a question, at most CORRECTIONS corrections, thanks; what is learned of each is awaited. */
import type { Line, Message } from './line.ts'
import type { Method, Told } from './methods/method.ts'
import { reactionTo, samplingSeed, type Reaction, type Visit } from './plan.ts'
import type { Population } from './population.ts'
import type { Person } from './scenarios.ts'

export type Talk = { temperature: number; maxTokens: number }
/** How the scorer read reactions: with the sign of their words, without an opinion, with the other sign. */
export type Readings = { right: number; none: number; wrong: number }
/** `firstReplies`: for each session with a wish, whether its first reply was as wanted. */
export type Sessions = { told: Told[]; readings: Readings; firstReplies: boolean[] }

const CORRECTIONS = 2

export const systemOf = ({ system }: Person, note: string | null): string =>
  note === null ? system : `${system} ${note}`

type Ports = {
  plan: readonly Visit[]
  people: readonly Person[]
  population: Population
  method: Method
  lineOf(person: number): Line
  onSession?: (ended: number) => void
}

export const holdSessions = async (ports: Ports): Promise<Sessions> => {
  const sessions: Sessions = { told: [], readings: { right: 0, none: 0, wrong: 0 }, firstReplies: [] }
  for (const [at, visit] of ports.plan.entries()) {
    await holdSession(ports, visit, sessions)
    ports.onSession?.(at + 1)
  }
  return sessions
}

const holdSession = async (
  { people, population, method, lineOf }: Ports,
  visit: Visit,
  { told, readings, firstReplies }: Sessions,
): Promise<void> => {
  const { talk } = population
  const person = people[visit.person]!
  const line = lineOf(visit.person)
  const messages: Message[] = [
    { role: 'system', content: systemOf(person, method.note(told, visit.person)) },
    { role: 'user', content: visit.question },
  ]
  const ask = async (attempt: number, maxTokens: number): ReturnType<Line['answer']> => {
    const session = `session-${visit.number}`
    const seed = samplingSeed(visit, attempt)
    const answer = await line.answer({ ...talk, messages, user: person.name, session, seed, maxTokens })
    await line.settled()
    return answer
  }
  const record = (turn: string, { words, sign }: Reaction): void => {
    const { reward = null, hint = null } = line.verdict(turn) ?? {}
    readings[reward === null ? 'none' : Math.sign(reward) === sign ? 'right' : 'wrong'] += 1
    if (reward !== null && reward < 0 && hint !== null) told.push({ person: visit.person, words, hint })
  }

  let { text, turn } = await ask(0, talk.maxTokens)
  for (let attempt = 1; ; attempt += 1) {
    const reaction = reactionTo(visit, attempt - 1, text, population)
    if (attempt === 1 && visit.lie === null) firstReplies.push(reaction.wanted)
    messages.push({ role: 'assistant', content: text }, { role: 'user', content: reaction.words })
    const last = reaction.sign > 0 || attempt > CORRECTIONS
    // The reaction scores the answer before it; nobody reads what follows the last one.
    const next = await ask(attempt, last ? 1 : talk.maxTokens)
    record(turn, reaction)
    if (last) return
    ;({ text, turn } = next)
  }
}
