/**
 * The evaluation: sessions until the first reply meets the user's rule three times in a row, the share of
 * such replies, and whether the content is still right. All traffic is HTTP through an OpenAI client.
 */
import type OpenAI from 'openai'
import type { Question } from '../../../models/tiny/recipe/families/family.ts'
import { isCorrect, questions } from '../../../models/tiny/recipe/questions.ts'
import { integer, pick, seeded, type Random } from '../../../models/tiny/recipe/random.ts'
import { USERS, WRONG, type User } from './users.ts'

export type DemoSettings = { seed: number; sessions: number; evaluation: number; fresh: number; stopShare: number }
export const DEMO: DemoSettings = { seed: 1, sessions: 300, evaluation: 300, fresh: 96, stopShare: 23 }

/** Convergence: this many first replies in a row. The share is over the last WINDOW sessions. */
const IN_A_ROW = 3
const WINDOW = 24
const CORRECTIONS = 2
const PARALLEL = 8

type UserRecord = { user: User; random: Random; firstReplies: boolean[]; toConverge: number | null }
type DemoProgress = {
  sessions: number
  users: { name: string; share: number; converged: number | null }[]
  requests: number
  failed: number
}

type DemoPorts = {
  client: OpenAI
  /** Resolves when everything said so far has been scored and learned from. */
  settled: () => Promise<void>
  onProgress?: (progress: DemoProgress) => void
}

export class Demo {
  readonly users: UserRecord[]
  requests = 0
  failed = 0
  lastError: Error | null = null
  private readonly ports: DemoPorts
  private readonly settings: DemoSettings
  private readonly questions: Question[]

  constructor(ports: DemoPorts, settings: DemoSettings) {
    this.ports = ports
    this.settings = settings
    this.users = USERS.map((user, i) => ({
      user,
      random: seeded(settings.seed * 1_000 + i),
      firstReplies: [],
      toConverge: null,
    }))
    this.questions = questions({ heldOut: true, split: 'demo', seed: settings.seed, count: settings.sessions })
  }

  get sessions(): number {
    return this.users.reduce((total, record) => total + record.firstReplies.length, 0)
  }

  /** Users in turn, three sessions at a time, until everyone is content or the sessions are used up. */
  async run(): Promise<void> {
    while (
      this.sessions + this.users.length <= this.settings.sessions &&
      !this.users.every((record) => this.content(record))
    ) {
      const first = this.sessions
      await Promise.all(this.users.map((record, i) => this.session(record, this.questions[first + i] as Question)))
      await this.ports.settled()
      this.ports.onProgress?.({
        sessions: this.sessions,
        requests: this.requests,
        failed: this.failed,
        users: this.users.map((r) => ({
          name: r.user.name,
          share: lastShare(r.firstReplies),
          converged: r.toConverge,
        })),
      })
    }
  }

  private content(record: UserRecord): boolean {
    return (
      record.firstReplies.length >= WINDOW &&
      record.firstReplies.slice(-WINDOW).filter(Boolean).length >= this.settings.stopShare
    )
  }

  /** One conversation: ask, correct at most twice, thank. */
  private async session(record: UserRecord, question: Question): Promise<void> {
    const { user } = record
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: user.system },
      { role: 'user', content: question.question },
    ]
    for (let attempt = 0; attempt <= CORRECTIONS; attempt += 1) {
      const answer = await this.ask(messages, { user: user.who, seed: seedFrom(record.random) })
      if (answer === null) return
      if (attempt === 0) this.note(record, user.satisfied(answer))
      const right = isCorrect(question, answer)
      const content = right && user.satisfied(answer)
      const reaction = pick(record.random, content ? user.thanks : user.satisfied(answer) ? WRONG : user.complaints)
      messages.push({ role: 'assistant', content: answer }, { role: 'user', content: reaction })
      if (content || attempt === CORRECTIONS) {
        await this.ask(messages, { user: user.who, seed: seedFrom(record.random) })
        return
      }
    }
  }

  private note(record: UserRecord, ok: boolean): void {
    record.firstReplies.push(ok)
    if (
      record.toConverge === null &&
      record.firstReplies.length >= IN_A_ROW &&
      record.firstReplies.slice(-IN_A_ROW).every(Boolean)
    )
      record.toConverge = record.firstReplies.length
  }

  /** Streams one answer; null when the request failed. */
  private async ask(
    messages: OpenAI.ChatCompletionMessageParam[],
    extra: { user?: string; model?: string; temperature?: number; seed?: number; noTrain?: boolean },
  ): Promise<string | null> {
    this.requests += 1
    const { model = 'policy', temperature, user, seed, noTrain } = extra
    try {
      const stream = await this.ports.client.chat.completions.create(
        {
          model,
          messages: [...messages],
          stream: true,
          max_tokens: 96,
          ...(temperature === undefined ? {} : { temperature }),
          ...(user === undefined ? {} : { user }),
          ...(seed === undefined ? {} : { seed }),
        },
        noTrain ? { headers: { 'x-instar-no-train': '1' } } : {},
      )
      let text = ''
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      return text
    } catch (error) {
      this.failed += 1
      this.lastError = error as Error
      return null
    }
  }

  /** Share of `questions` that nobody asked answered rightly by a version, greedy. */
  async correct(model: string): Promise<number> {
    const asked = questions({ heldOut: true, split: 'evaluation', seed: 1, count: this.settings.evaluation })
    const right = await this.each(asked, async (question) => {
      const answer = await this.ask([{ role: 'user', content: question.question }], {
        model,
        temperature: 0,
        noTrain: true,
      })
      return answer !== null && isCorrect(question, answer)
    })
    return share(right)
  }

  /** Share of first replies of a version that meet the user's rule, sampled, on questions that nobody asked. */
  async rule(user: User, model: string): Promise<number> {
    const asked = questions({ heldOut: true, split: 'evaluation', seed: 2, count: this.settings.fresh })
    return share(
      await this.each(asked, async (question, i) => {
        const answer = await this.ask(
          [
            { role: 'system', content: user.system },
            { role: 'user', content: question.question },
          ],
          { model, user: user.who, seed: i + 1, noTrain: true },
        )
        return answer !== null && user.satisfied(answer)
      }),
    )
  }

  /** One answer each of two versions, side by side. */
  async sideBySide(user: User, models: readonly string[]): Promise<{ question: string; answers: string[] }> {
    const question = questions({
      heldOut: true,
      split: 'evaluation',
      seed: 3 + USERS.indexOf(user),
      count: 1,
    })[0] as Question
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: user.system },
      { role: 'user', content: question.question },
    ]
    const answers = await Promise.all(
      models.map((model) => this.ask(messages, { model, temperature: 0, noTrain: true })),
    )
    return { question: question.question, answers: answers.map((answer) => answer ?? '') }
  }

  private async each<T, R>(items: readonly T[], work: (item: T, index: number) => Promise<R>): Promise<R[]> {
    const results: R[] = []
    let next = 0
    const lane = async (): Promise<void> => {
      for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as T, i)
    }
    await Promise.all(Array.from({ length: PARALLEL }, lane))
    return results
  }
}

/** Everything random about a session comes from the demo's seed. */
const seedFrom = (random: Random): number => integer(random, 1, 2 ** 31 - 1)

const share = (list: readonly boolean[]): number => (list.length === 0 ? 0 : list.filter(Boolean).length / list.length)
export const lastShare = (list: readonly boolean[]): number => share(list.slice(-WINDOW))
