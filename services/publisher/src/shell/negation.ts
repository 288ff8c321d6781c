/**
 * Whether the base obeys an instruction that forbids something, measured at line start: an answer to an open question is
 * sampled, and one of its words forbidden. A model that does not understand the negation uses the word as often as
 * without it, or more. Where it does obey, hints of judges may contain negations (services/scorer, core/negation.ts).
 */
import type { Settings } from '@instar/events'
import type { AdapterSha, ChatMessage } from '@instar/engine/port'
import type { PublisherConfig } from '../config.ts'
import { SEED, type MeasurePorts } from './base.ts'
import type { ProbeSet } from './probes.ts'

/** Open questions that are asked. */
const QUESTIONS = 16
/** Tokens of an answer. */
const MAX_TOKENS = 32
const WORD = /\p{L}{5,}/gu

/** The most frequent word of five letters or more that the question does not have; the first of equal ones. */
export const wordToForbid = (question: string, answer: string): string | null => {
  const asked = new Set<string>(question.toLowerCase().match(WORD) ?? [])
  const counts = new Map<string, number>()
  for (const word of answer.toLowerCase().match(WORD) ?? [])
    if (!asked.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1)
  return (
    [...counts].reduce<[string, number] | null>((best, one) => (best && best[1] >= one[1] ? best : one), null)?.[0] ??
    null
  )
}

const uses = (answer: string, word: string): boolean =>
  (answer.toLowerCase().match(WORD) ?? []).some((used) => used === word)

const lastText = (messages: readonly ChatMessage[]): string => {
  const content = messages.at(-1)?.content
  return typeof content === 'string' ? content : ''
}

/** The messages with an instruction on a new line of the last one, as the trainer's teacher reads a hint. */
const withInstruction = (messages: readonly ChatMessage[], text: string): ChatMessage[] => [
  ...messages.slice(0, -1),
  { ...messages.at(-1)!, content: `${lastText(messages)}\n${text}` },
]

/**
 * `negation_asked`: questions whose answer had a word to forbid; `negation_without`, `negation_with`: fresh answers that
 * use the word, without and with "Do not use the word …".
 */
export const measureNegation = async (
  { evaluator, model }: Pick<MeasurePorts, 'evaluator' | 'model'>,
  { prompts }: Pick<ProbeSet, 'prompts'>,
  config: Pick<PublisherConfig, 'maxTokens'>,
  adapter: AdapterSha = null,
): Promise<Settings> => {
  const maxTokens = Math.min(MAX_TOKENS, config.maxTokens)
  const fits = (messages: readonly ChatMessage[]): boolean =>
    model.promptIds(withInstruction(messages, 'x'.repeat(60)), {}).length + maxTokens <= model.contextLength
  const answers = async (asked: readonly (readonly ChatMessage[])[], seed: number): Promise<string[]> => {
    if (asked.length === 0) return []
    const { completions } = await evaluator.evaluate({
      prompts: asked.map((messages) => model.promptIds(messages, {})),
      adapter,
      references: [],
      sampling: { temperature: model.defaults.temperature, topP: 1, topK: 0, seed, maxTokens, stop: [] },
    })
    return completions.map(({ text }) => text)
  }
  const questions: (readonly ChatMessage[])[] = []
  for (const messages of prompts) {
    if (questions.length >= QUESTIONS) break
    if (messages.length > 0 && fits(messages)) questions.push(messages)
  }
  const first = await answers(questions, SEED + 5_000_000)
  const cases = questions.flatMap((messages, i) => {
    const word = wordToForbid(lastText(messages), first[i] ?? '')
    return word === null ? [] : [{ messages, word }]
  })
  const count = (given: readonly string[]): number => given.filter((text, i) => uses(text, cases[i]!.word)).length
  const without = await answers(
    cases.map(({ messages }) => messages),
    SEED + 6_000_000,
  )
  const forbidden = await answers(
    cases.map(({ messages, word }) => withInstruction(messages, `Do not use the word "${word}".`)),
    SEED + 6_000_000,
  )
  return { negation_asked: cases.length, negation_without: count(without), negation_with: count(forbidden) }
}
