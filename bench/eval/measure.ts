/** What is measured of a line: first replies to questions that nobody asked, and the facts that a liar denies. */
import { isCorrect } from '../../models/tiny/recipe/questions.ts'
import { mapConcurrently, shareOf } from '../../cli/src/demo/chat-client.ts'
import { holds, type Fact } from './facts.ts'
import type { Line } from './line.ts'
import type { Asked } from './plan.ts'
import type { Person } from './scenarios.ts'
import type { Talk } from './sessions.ts'
import type { Wish, WishName } from './wishes.ts'

/** Shares of one person's first replies that have the wanted form, and that have the right content. */
export type Replies = { wanted: number; correct: number }
/** Of the answers to a fact, greedy, in each wording under each system message. */
export type FactAnswer = { right: boolean; lie: boolean }

const CONCURRENCY = 8

type Ports = { line: Line; talk: Talk; wishes: Readonly<Record<WishName, Wish>> }

/** Sampled with fixed seeds, so that two methods differ in the answers alone. */
export const measureReplies = async (
  { line, talk, wishes }: Ports,
  { name }: Person,
  system: string,
  asked: readonly Asked[],
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
    return { wanted: wishes[wish].satisfied(text), correct: isCorrect(question, text) }
  })
  return {
    wanted: shareOf(replies.map(({ wanted }) => wanted)),
    correct: shareOf(replies.map(({ correct }) => correct)),
  }
}

export const measureFact = (
  { line, talk }: Pick<Ports, 'line' | 'talk'>,
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
