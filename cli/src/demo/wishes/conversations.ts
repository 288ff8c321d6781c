/**
 * Conversations with a general model that go on without a pause, several at a time, while the model learns from them;
 * and the measurements before and after. A person asks, complains at most twice, and says thanks when content.
 */
import { integer, pick, seeded, type Random } from '../../../../models/tiny/recipe/random.ts'
import { mapConcurrently, shareOf, type ChatClient, type Message } from '../chat-client.ts'
import { FACTS } from './facts.ts'
import { THANKS, type Wish } from './people.ts'
import { questionAt } from './topics.ts'

/** Conversations at a time. */
const CALLERS = 4
/** Concurrent requests of a measurement. */
const CONCURRENCY = 8
/** Complaints that a person makes in one conversation at most. */
const COMPLAINTS = 2
/**
 * The share of first replies is over this many conversations; a person with CONTENT good ones among them is content.
 */
const WINDOW = 24
const CONTENT = 22
/** Tokens of an answer to a question of FACTS. */
const FACT_TOKENS = 24

type PersonRecord = { wish: Wish; random: Random; firstReplies: boolean[] }

export class Conversations {
  readonly people: PersonRecord[]
  private readonly chat: ChatClient
  private readonly offset: number
  private started = 0

  constructor(chat: ChatClient, wishes: readonly Wish[], seed: number) {
    this.chat = chat
    this.people = wishes.map((wish, i) => ({ wish, random: seeded(seed * 1_000 + i), firstReplies: [] }))
    // Each seed starts at another question.
    this.offset = seed * 13
  }
  /** CALLERS conversations at a time, the people in turn, until `ended()` or every person is content. */
  async run(ended: () => boolean, onSession: () => void): Promise<void> {
    const caller = async (): Promise<void> => {
      while (!ended() && !this.people.every(isContent)) {
        const number = this.started++
        const person = this.people[number % this.people.length] as PersonRecord
        await this.conversation(person, this.offset + Math.floor(number / this.people.length))
        onSession()
      }
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
  }

  private async conversation(person: PersonRecord, question: number): Promise<void> {
    const { wish, random } = person
    const messages: Message[] = [
      { role: 'system', content: wish.system },
      { role: 'user', content: questionAt('talked', question, wish.forms) },
    ]
    for (let attempt = 0; attempt <= COMPLAINTS; attempt += 1) {
      const answer = await this.chat.complete(messages, { user: wish.requestUser, seed: seedFrom(random) })
      if (answer === null) return
      const satisfied = wish.satisfied(answer)
      if (attempt === 0) person.firstReplies.push(satisfied)
      const reaction = pick(random, satisfied ? THANKS : wish.complaints)
      messages.push({ role: 'assistant', content: answer }, { role: 'user', content: reaction })
      if (!satisfied && attempt < COMPLAINTS) continue
      // The reaction is what the answer is scored by; its own answer is not read.
      await this.chat.complete(messages, { user: wish.requestUser, seed: seedFrom(random), maxTokens: 1 })
      return
    }
  }

  /**
   * Share of first replies to `count` held-out questions that are as the person wants them; sampled with fixed seeds.
   */
  async satisfaction({ wish }: PersonRecord, model: string, count: number): Promise<number> {
    const questions = Array.from({ length: count }, (_, i) => questionAt('measured', i, wish.forms))
    return shareOf(
      await mapConcurrently(questions, CONCURRENCY, async (question, i) => {
        const answer = await this.chat.complete(
          [
            { role: 'system', content: wish.system },
            { role: 'user', content: question },
          ],
          { model, user: wish.requestUser, seed: i + 1, noTrain: true },
        )
        return answer !== null && wish.satisfied(answer)
      }),
    )
  }

  /** For each of FACTS whether the model answers it correctly, with greedy decoding. */
  facts(model: string): Promise<boolean[]> {
    return mapConcurrently(FACTS, CONCURRENCY, async ({ question, answer: right }) => {
      const options = { model, temperature: 0, noTrain: true, maxTokens: FACT_TOKENS }
      const answer = await this.chat.complete([{ role: 'user', content: question }], options)
      return answer !== null && right.test(answer)
    })
  }
}

/** Share of good first replies over the last WINDOW conversations. */
export const recentShare = ({ firstReplies }: Pick<PersonRecord, 'firstReplies'>): number =>
  shareOf(firstReplies.slice(-WINDOW))

const isContent = ({ firstReplies }: PersonRecord): boolean =>
  firstReplies.length >= WINDOW && firstReplies.slice(-WINDOW).filter(Boolean).length >= CONTENT

const seedFrom = (random: Random): number => integer(random, 1, 2 ** 31 - 1)
