/** Clients of the stack, and a ledger of the answers that they received in full. */
import OpenAI from 'openai'
import { setTimeout as pause } from 'node:timers/promises'
import { ask, question, reaction, type Answer, type Messages } from '../kit/people.ts'

export type Ledger = { turns: Set<string>; next: number }

export const ledger = (): Ledger => ({ turns: new Set(), next: 0 })

/** A client of the gateway at a port; records each turn whose answer was complete. */
export const clientOf = (port: number, { turns }: Ledger): OpenAI =>
  new OpenAI({
    baseURL: `http://127.0.0.1:${port}/v1`,
    apiKey: 'none',
    maxRetries: 0,
    timeout: 30_000,
    async fetch(url, init) {
      const response = await fetch(url, init)
      const turn = response.headers.get('x-instar-turn-id')
      if (!response.ok || turn === null || response.body === null) return response
      let text = ''
      const decoder = new TextDecoder()
      const noted = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          text += decoder.decode(chunk, { stream: true })
          // The library stops reading at this line, so the end of the stream is not seen.
          if (text.includes('data: [DONE]') && !text.includes('"error"')) turns.add(turn)
          controller.enqueue(chunk)
        },
        flush() {
          if (!text.includes('"error"')) turns.add(turn)
        },
      })
      return new Response(response.body.pipeThrough(noted), response)
    },
  })

export type Talk = {
  answered(): number
  /** Resolves after so many further answers. */
  more(answers: number): Promise<void>
  /** Errors since the start or the last call. */
  faults(): string[]
  stop(): Promise<void>
}

/**
 * Conversations in parallel until they are stopped: a question to one gateway, the reaction to the next one,
 * unlabelled. An error ends a conversation, and another begins.
 */
export const talk = (clients: readonly OpenAI[], book: Ledger, lanes = 3): Talk => {
  const waiting = new Set<() => void>()
  let answered = 0
  let faults: string[] = []
  let over = false
  const say = async (client: OpenAI, messages: Messages, user: string): Promise<Answer> => {
    const answer = await ask(client, messages, { user })
    answered += 1
    for (const wake of waiting) wake()
    return answer
  }
  const converse = async (i: number): Promise<void> => {
    const [one, other] = [clients[i % clients.length]!, clients[(i + 1) % clients.length]!]
    const user = `person ${Math.floor(i / 2) % 4}`
    const messages: Messages = [{ role: 'user', content: question(i) }]
    const first = await say(one, messages, user)
    messages.push({ role: 'assistant', content: first.text }, { role: 'user', content: reaction(i).says })
    const second = await say(other, messages, user)
    if (second.session !== first.session) throw new Error(`${first.turn} was continued by ${second.turn}`)
  }
  const lane = async (): Promise<void> => {
    while (!over) {
      try {
        await converse(book.next++)
      } catch (error) {
        faults.push((error as Error).message)
      }
      await pause(60)
    }
  }
  const running = Promise.all(Array.from({ length: lanes }, lane))
  return {
    answered: () => answered,
    more: (answers) =>
      new Promise((resolve) => {
        const enough = answered + answers
        const look = (): void => {
          if (answered < enough) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    faults() {
      const told = faults
      faults = []
      return told
    },
    async stop() {
      over = true
      await running
    },
  }
}
