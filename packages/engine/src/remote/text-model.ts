/** The model behind an engine that takes messages: there is no tokenizer (vocabulary 0), so nothing of it has ids. */
import type { Model } from '../port.ts'

/** Where the engine does not say how much it takes. */
export const UNKNOWN_CONTEXT = 1_000_000

export const textModel = (name: string): Model => ({
  name,
  sha256: '',
  contextLength: UNKNOWN_CONTEXT,
  vocabulary: 0,
  defaults: { temperature: 1, topP: 1, topK: 0 },
  endOfTurn: [],
  encode: () => [],
  decode: () => '',
  detokenizer: () => ({ push: () => '', end: () => '' }),
  render: (messages) => JSON.stringify(messages),
  promptIds: () => [],
})
