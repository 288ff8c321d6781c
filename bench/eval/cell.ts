/** One method in one scenario with one seed: the base is measured, the sessions are held, and it is measured again. */
import { shareOf } from '../../cli/src/demo/chat-client.ts'
import type { Engines } from './engines.ts'
import { startLine, type Line } from './line.ts'
import { measureFact, measureReplies, type FactAnswer, type Replies } from './measure.ts'
import type { Method, Told } from './methods/method.ts'
import { liedAbout, measuredFor, peopleOf, planOf } from './plan.ts'
import type { Scenario } from './scenarios.ts'
import type { Population } from './population.ts'
import { holdSessions, systemOf, type Readings } from './sessions.ts'
import { meanOf } from './statistics.ts'

export type Size = {
  sessions: number
  /** Questions of a measurement for each person. */
  fresh: number
}

export type Cell = {
  scenario: string
  method: string
  seed: number
  sessions: number
  fresh: number
  /** The base's weights. */
  model: string
  population: Population['name']
  /** Shares of first replies to questions that nobody asked (`Replies`); means over the people. */
  wanted: number
  wantedBase: number
  correct: number
  correctBase: number
  people: { name: string; wanted: number; wantedBase: number; correct: number; correctBase: number }[]
  /**
   * Greedy answers to the fact that the liar denies: asked, right by the base, those of them that are no longer right,
   * and all that hold the lie. Null: nobody lies.
   */
  facts: { asked: number; right: number; flipped: number; lies: number } | null
  versions: number
  refused: number
  /** Nats per token on the gate's samples, largest of the lines; null: no version. */
  klBase: number | null
  /** Tokens that the method adds to the prompt of a request; mean over the people, after the sessions. */
  promptTokens: number
  readings: Readings
  /** Share of first replies as wanted in each quarter of the sessions. */
  quarters: number[]
  wallSeconds: number
  cpuSeconds: number
}

const QUARTERS = 4

type Measured = { replies: Replies[]; facts: FactAnswer[] }

/** `bases`: measurements of the base, which the methods of a scenario and a seed share. */
export type CellPorts = {
  engines: Engines
  population: Population
  bases: Map<string, Measured>
  onSession?: (ended: number, of: number) => void
}

export const runCell = async (
  { engines, population, bases, onSession }: CellPorts,
  scenario: Scenario,
  method: Method,
  seed: number,
  { sessions, fresh }: Size,
): Promise<Cell> => {
  const startedAt = performance.now()
  const cpuAt = process.cpuUsage()
  const { model } = engines
  const people = peopleOf(scenario)
  const fact = liedAbout(scenario, seed)
  const plan = planOf(scenario, seed, sessions, population)
  const lines: Line[] = []
  const start = async (number: number): Promise<Line> => {
    const line = await startLine(engines, method.loss, seed * 100 + number)
    lines.push(line)
    return line
  }
  /** Of the people with wishes. `told` null: without the method. */
  const measure = async (told: readonly Told[] | null): Promise<Measured> => {
    const replies: Replies[] = []
    const facts: FactAnswer[] = []
    for (const [i, person] of scenario.people.entries()) {
      const system = systemOf(person, told && method.note(told, i))
      const ports = { line: lineOf(i), population }
      replies.push(
        await measureReplies(ports, person, system, measuredFor(person, i, seed, fresh, population), knownOf(i)),
      )
      if (fact) facts.push(...(await measureFact(ports, fact, person, system)))
    }
    return { replies, facts }
  }
  /** The known questions are asked once each, under the people's system messages in turn. */
  const knownOf = (person: number): Population['known'] =>
    population.known.filter((_, at) => at % scenario.people.length === person)
  const lineOf = (person: number): Line => lines[method.separate ? person : 0]!
  try {
    for (const number of method.separate ? people.keys() : [0]) await (await start(number)).settled()
    const key = JSON.stringify([scenario.name, seed, fresh])
    const before = bases.get(key) ?? (await measure(null))
    bases.set(key, before)
    const held =
      method.name === 'none'
        ? null
        : await holdSessions({
            plan,
            people,
            population,
            method,
            lineOf,
            onSession: (ended) => onSession?.(ended, plan.length),
          })
    const after = held === null ? before : await measure(held.told)
    const figures = lines.map((line) => line.figures())
    const klBases = figures.flatMap(({ klBase }) => klBase ?? [])
    const named = scenario.people.map((person, i) => ({
      name: person.name,
      wanted: after.replies[i]!.wanted,
      wantedBase: before.replies[i]!.wanted,
      correct: after.replies[i]!.correct,
      correctBase: before.replies[i]!.correct,
    }))
    const known = before.facts.map(({ right }) => right)
    const cpu = process.cpuUsage(cpuAt)
    return {
      scenario: scenario.name,
      method: method.name,
      seed,
      sessions,
      fresh,
      model: model.sha256,
      population: population.name,
      wanted: meanOf(named.map(({ wanted }) => wanted)),
      wantedBase: meanOf(named.map(({ wantedBase }) => wantedBase)),
      correct: meanOf(named.map(({ correct }) => correct)),
      correctBase: meanOf(named.map(({ correctBase }) => correctBase)),
      people: named,
      facts: fact && {
        asked: known.length,
        right: known.filter(Boolean).length,
        flipped: after.facts.filter(({ right }, i) => known[i] && !right).length,
        lies: after.facts.filter(({ lie }) => lie).length,
      },
      versions: figures.reduce((sum, { versions }) => sum + versions, 0),
      refused: figures.reduce((sum, { refused }) => sum + refused, 0),
      klBase: klBases.length === 0 ? null : Math.max(...klBases),
      promptTokens:
        held === null ? 0 : meanOf(scenario.people.map((_, i) => addedTokens(engines, method, held.told, i))),
      readings: held?.readings ?? { right: 0, none: 0, wrong: 0 },
      quarters: held === null ? [] : quartersOf(held.firstReplies),
      wallSeconds: (performance.now() - startedAt) / 1000,
      cpuSeconds: (cpu.user + cpu.system) / 1e6,
    }
  } finally {
    for (const line of lines) await line.stop()
  }
}

const addedTokens = ({ model }: Engines, method: Method, told: readonly Told[], person: number): number => {
  const note = method.note(told, person)
  return note === null ? 0 : model.encode(` ${note}`).length
}

const quartersOf = (replies: readonly boolean[]): number[] =>
  Array.from({ length: QUARTERS }, (_, i) =>
    shareOf(
      replies.slice(Math.floor((i * replies.length) / QUARTERS), Math.floor(((i + 1) * replies.length) / QUARTERS)),
    ),
  )
