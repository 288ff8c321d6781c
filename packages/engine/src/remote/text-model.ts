/** The `Model` of a chat engine: it has no tokenizer (vocabulary 0), so texts have no ids. */
import type { Model } from '../port.ts'

/** The context length in tokens of an engine that does not report it. */
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
