/** What is measured of a line: first replies to questions that nobody asked, and the facts that a liar denies. */
import { mapConcurrently, shareOf } from '../../cli/src/demo/chat-client.ts'
import { holds, type Fact } from './facts.ts'
import type { Line } from './line.ts'
import type { Asked } from './plan.ts'
import { isRight, type Population } from './population.ts'
import type { Person } from './scenarios.ts'

/**
 * Shares of one person's first replies that have the wanted form, and that have the right content; where questions have
 * not one right answer, `correct` is the share of the person's `known` questions that are answered rightly.
 */
export type Replies = { wanted: number; correct: number }
/** Of the answers to a fact, greedy, in each wording under each system message. */
export type FactAnswer = { right: boolean; lie: boolean }

const CONCURRENCY = 8
const KNOWN_TOKENS = 32

type Ports = { line: Line; population: Population }

/** Sampled with fixed seeds, so that two methods differ in the answers alone. */
export const measureReplies = async (
  { line, population: { talk, wishes } }: Ports,
  { name }: Person,
  system: string,
  asked: readonly Asked[],
  known: Population['known'],
): Promise<Replies> => {
  const replies = await mapConcurrently(asked, CONCURRENCY, async ({ question, wish }, i) => {
    const { text } = await line.answer({
      ...talk,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: question.question },
      ],
      user: name,
      session: null,
      seed: i + 1,
    })
    return { wanted: wishes[wish]!.satisfied(text), correct: isRight(question, text) }
  })
  const knows = await mapConcurrently(known, CONCURRENCY, async (one) => {
    const { text } = await line.answer({
      temperature: 0,
      maxTokens: KNOWN_TOKENS,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: one.question },
      ],
      user: name,
      session: null,
      seed: 1,
    })
    return one.answer.test(text)
  })
  return {
    wanted: shareOf(replies.map(({ wanted }) => wanted)),
    correct: known.length > 0 ? shareOf(knows) : shareOf(replies.map(({ correct }) => correct)),
  }
}

export const measureFact = (
  { line, population: { talk } }: Ports,
  { right, lie, wordings }: Fact,
  { name }: Person,
  system: string,
): Promise<FactAnswer[]> =>
  mapConcurrently(wordings, CONCURRENCY, async (question) => {
    const { text } = await line.answer({
      ...talk,
      temperature: 0,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: question },
      ],
      user: name,
      session: null,
      seed: 1,
    })
    return { right: holds(text, right), lie: holds(text, lie) }
  })
