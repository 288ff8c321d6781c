/** An engine without computation: streams a fixed answer, and records the time of its last token. */
import { setImmediate } from 'node:timers/promises'
import type { Capabilities, GeneratedPiece, GenerateRequest, Model, ServingEngine } from '@instar/engine/port'

export const ANSWER =
  'A spider has eight legs, which is two more than an insect has, and it uses the front pair to feel its way, much as you would use your hands in a dark room.'

/** Words that each are one token with the space before them. */
const MOST_WORDS = 256
/** Words before an answer: MOST_WORDS to this power are more than the seeds of a request. */
const OPENING_WORDS = 4

/** For each seed four other words, so that every answer is unique while no text is encoded for it. */
export const uniqueOpenings = (model: Model): ((seed: number) => GeneratedPiece[]) => {
  const words: GeneratedPiece[] = []
  for (let id = 0; id < model.vocabulary && words.length < MOST_WORDS; id += 1) {
    const text = model.decode([id])
    if (/^ [a-z]{3,}$/.test(text)) words.push({ type: 'tokens', tokens: [{ id, logprob: -0.5, text, top: [] }] })
  }
  return (seed) =>
    Array.from({ length: OPENING_WORDS }, (_, i) => words[Math.floor(seed / words.length ** i) % words.length]!)
}

export class InstantEngine implements ServingEngine {
  /** Seed of the request → time of the last token, ms since the epoch. */
  readonly lastTokenAt = new Map<number, number>()
  readonly #model: Model
  readonly #pieces: GeneratedPiece[]
  readonly #opening: (seed: number) => readonly GeneratedPiece[]

  /** `opening`: what is said before the fixed answer, by the seed of the request. */
  constructor(model: Model, opening: (seed: number) => readonly GeneratedPiece[] = () => []) {
    this.#model = model
    this.#opening = opening
    const ids = [...model.encode(ANSWER), model.endOfTurn[0]!]
    this.#pieces = ids.map((id, i) => {
      const [before, after] = [i, i + 1].map((count) =>
        model.decode(ids.slice(0, Math.min(count, ids.length - 1))),
      ) as [string, string]
      return { type: 'tokens', tokens: [{ id, logprob: -0.5, text: after.slice(before.length), top: [] }] }
    })
  }

  capabilities(): Capabilities {
    return {
      engine: 'instant',
      fingerprint: 'instant-1',
      contextLength: this.#model.contextLength,
      vocabulary: this.#model.vocabulary,
      tokenExact: true,
      logprobs: true,
      maxBatch: 256,
    }
  }

  async *generate({ sampling }: GenerateRequest): AsyncIterable<GeneratedPiece> {
    await setImmediate()
    yield* this.#opening(sampling.seed)
    yield* this.#pieces.slice(0, -1)
    this.lastTokenAt.set(sampling.seed, performance.timeOrigin + performance.now())
    yield this.#pieces.at(-1)!
    yield { type: 'end', reason: 'stop', text: '' }
  }

  load(): Promise<void> {
    return Promise.resolve()
  }

  unload(): Promise<void> {
    return Promise.resolve()
  }

  score(): Promise<Float32Array> {
    return Promise.resolve(new Float32Array(0))
  }

  pending(): { running: number; waiting: number } {
    return { running: 0, waiting: 0 }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
