/**
 * The sessions and the measurements of the demo: sessions until three satisfying first replies in a row, the share of
 * satisfying first replies, and the correctness of the content. All requests go through an OpenAI client over HTTP.
 */
import type OpenAI from 'openai'
import type { Question } from '../../../models/tiny/recipe/families/family.ts'
import { isCorrect, questions } from '../../../models/tiny/recipe/questions.ts'
import { integer, pick, seeded, type Random } from '../../../models/tiny/recipe/random.ts'
import { ChatClient, mapConcurrently, shareOf, type Message } from './chat-client.ts'
import { USERS, WRONG, type User } from './users.ts'

export type DemoSettings = {
  seed: number
  /** Maximum number of sessions. */
  sessions: number
  /** Questions of a measurement of correctness. */
  evaluation: number
  /** Questions of a measurement of satisfaction, for each user. */
  fresh: number
  /** Satisfying first replies within the last WINDOW sessions at which a user's sessions end. */
  stopShare: number
}
export const DEMO: DemoSettings = { seed: 1, sessions: 300, evaluation: 300, fresh: 96, stopShare: 23 }

/** Convergence: this many satisfying first replies in a row. The share is over the last WINDOW sessions. */
const IN_A_ROW = 3
const WINDOW = 24
/** Corrections that a user gives in one session at most. */
const CORRECTIONS = 2
/** Concurrent requests of a measurement. */
const CONCURRENCY = 8
const MAX_TOKENS = 96

/** `firstReplies`: for each session, whether its first reply satisfied the user. */
type UserRecord = { user: User; random: Random; firstReplies: boolean[]; sessionsToConverge: number | null }
type DemoProgress = {
  sessions: number
  users: { name: string; share: number; converged: number | null }[]
  requests: number
  failed: number
}

type DemoPorts = {
  client: OpenAI
  /** Resolves when every turn so far is scored, every batch has its verdict, and the newest version is served. */
  settled: () => Promise<void>
  onProgress?: (progress: DemoProgress) => void
}

export class Demo {
  readonly users: UserRecord[]
  private readonly chat: ChatClient
  private readonly ports: DemoPorts
  private readonly settings: DemoSettings
  private readonly questions: Question[]

  constructor(ports: DemoPorts, settings: DemoSettings) {
    this.ports = ports
    this.chat = new ChatClient(ports.client, { maxTokens: MAX_TOKENS })
    this.settings = settings
    this.users = USERS.map((user, i) => ({
      user,
      random: seeded(settings.seed * 1_000 + i),
      firstReplies: [],
      sessionsToConverge: null,
    }))
    this.questions = questions({ heldOut: true, split: 'demo', seed: settings.seed, count: settings.sessions })
  }

  get requests(): number {
    return this.chat.requests
  }

  get failed(): number {
    return this.chat.failed
  }

  get lastError(): Error | null {
    return this.chat.lastError
  }

  get sessions(): number {
    return this.users.reduce((total, record) => total + record.firstReplies.length, 0)
  }

  /**
   * Runs a session of each user in turn, until the users are satisfied or the sessions are used up. One request at a
   * time, and none while anything is to be learned: which version answers, and which turns a batch has, do not depend
   * on how fast the machine is.
   */
  async run(): Promise<void> {
    while (
      this.sessions + this.users.length <= this.settings.sessions &&
      !this.users.every((record) => this.isSatisfied(record))
    ) {
      for (const record of this.users) await this.session(record, this.questions[this.sessions] as Question)
      this.ports.onProgress?.({
        sessions: this.sessions,
        requests: this.requests,
        failed: this.failed,
        users: this.users.map(({ user, firstReplies, sessionsToConverge }) => ({
          name: user.name,
          share: recentShare(firstReplies),
          converged: sessionsToConverge,
        })),
      })
    }
  }

  private isSatisfied({ firstReplies }: UserRecord): boolean {
    return (
      firstReplies.length >= WINDOW && firstReplies.slice(-WINDOW).filter(Boolean).length >= this.settings.stopShare
    )
  }

  /** One conversation: a question, at most CORRECTIONS corrections, thanks. */
  private async session(record: UserRecord, question: Question): Promise<void> {
    const { user } = record
    const messages: Message[] = [
      { role: 'system', content: user.system },
      { role: 'user', content: question.question },
    ]
    for (let attempt = 0; attempt <= CORRECTIONS; attempt += 1) {
      const answer = await this.paced(messages, record)
      if (answer === null) return
      const satisfied = user.satisfied(answer)
      if (attempt === 0) this.addFirstReply(record, satisfied)
      const done = satisfied && isCorrect(question, answer)
      const reaction = pick(record.random, done ? user.thanks : satisfied ? WRONG : user.complaints)
      messages.push({ role: 'assistant', content: answer }, { role: 'user', content: reaction })
      if (done || attempt === CORRECTIONS) {
        await this.paced(messages, record)
        return
      }
    }
  }

  /** An answer of the version that came of all turns before. Null if the request failed. */
  private async paced(messages: Message[], { user, random }: UserRecord): Promise<string | null> {
    const answer = await this.chat.complete(messages, { user: user.requestUser, seed: seedFrom(random) })
    await this.ports.settled()
    return answer
  }

  private addFirstReply(record: UserRecord, satisfied: boolean): void {
    record.firstReplies.push(satisfied)
    if (
      record.sessionsToConverge === null &&
      record.firstReplies.length >= IN_A_ROW &&
      record.firstReplies.slice(-IN_A_ROW).every(Boolean)
    )
      record.sessionsToConverge = record.firstReplies.length
  }

  /** Share of held-out questions that the model answers correctly, with greedy decoding. */
  async correctness(model: string): Promise<number> {
    const heldOut = questions({ heldOut: true, split: 'evaluation', seed: 1, count: this.settings.evaluation })
    const correct = await mapConcurrently(heldOut, CONCURRENCY, async (question) => {
      const answer = await this.chat.complete([{ role: 'user', content: question.question }], {
        model,
        temperature: 0,
        noTrain: true,
      })
      return answer !== null && isCorrect(question, answer)
    })
    return shareOf(correct)
  }

  /** Share of first replies to held-out questions that satisfy the user, sampled with fixed seeds. */
  async satisfaction(user: User, model: string): Promise<number> {
    const heldOut = questions({ heldOut: true, split: 'evaluation', seed: 2, count: this.settings.fresh })
    return shareOf(
      await mapConcurrently(heldOut, CONCURRENCY, async (question, i) => {
        const answer = await this.chat.complete(
          [
            { role: 'system', content: user.system },
            { role: 'user', content: question.question },
          ],
          { model, user: user.requestUser, seed: i + 1, noTrain: true },
        )
        return answer !== null && user.satisfied(answer)
      }),
    )
  }

  /** The answers of several models to one question, with greedy decoding. */
  async compareAnswers(user: User, models: readonly string[]): Promise<{ question: string; answers: string[] }> {
    const question = questions({
      heldOut: true,
      split: 'evaluation',
      seed: 3 + USERS.indexOf(user),
      count: 1,
    })[0] as Question
    const messages: Message[] = [
      { role: 'system', content: user.system },
      { role: 'user', content: question.question },
    ]
    const answers = await Promise.all(
      models.map((model) => this.chat.complete(messages, { model, temperature: 0, noTrain: true })),
    )
    return { question: question.question, answers: answers.map((answer) => answer ?? '') }
  }
}

const seedFrom = (random: Random): number => integer(random, 1, 2 ** 31 - 1)

/** Share over the last WINDOW sessions. */
export const recentShare = (firstReplies: readonly boolean[]): number => shareOf(firstReplies.slice(-WINDOW))
