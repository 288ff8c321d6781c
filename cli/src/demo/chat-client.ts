/** The requests of simulated people: streamed through an OpenAI client over HTTP, and counted. */
import type OpenAI from 'openai'

export type Message = OpenAI.ChatCompletionMessageParam

type CompleteOptions = {
  user?: string
  model?: string
  temperature?: number
  seed?: number
  maxTokens?: number
  /** The turn is not learned from. */
  noTrain?: boolean
}

export class ChatClient {
  requests = 0
  failed = 0
  lastError: Error | null = null
  private readonly client: OpenAI
  private readonly defaults: { maxTokens: number; temperature?: number }

  constructor(client: OpenAI, defaults: { maxTokens: number; temperature?: number }) {
    this.client = client
    this.defaults = defaults
  }

  /** Streams one answer. Null if the request failed. */
  async complete(messages: readonly Message[], options: CompleteOptions): Promise<string | null> {
    this.requests += 1
    const { model = 'policy', temperature = this.defaults.temperature, user, seed, noTrain } = options
    try {
      const stream = await this.client.chat.completions.create(
        {
          model,
          messages: [...messages],
          stream: true,
          max_tokens: options.maxTokens ?? this.defaults.maxTokens,
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
}

/** Maps items with `concurrency` calls at a time. */
export const mapConcurrently = async <T, R>(
  items: readonly T[],
  concurrency: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> => {
  const results: R[] = []
  let next = 0
  const runNext = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as T, i)
  }
  await Promise.all(Array.from({ length: concurrency }, runNext))
  return results
}

/** 0 for an empty list. */
export const shareOf = (list: readonly boolean[]): number =>
  list.length === 0 ? 0 : list.filter(Boolean).length / list.length
