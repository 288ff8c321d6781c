/** The measurement on engines that obey, ignore and misread an instruction that forbids. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatMessage, Evaluator, Model } from '@instar/engine/port'
import { measureNegation, wordToForbid } from './negation.ts'

const ANSWERS = [
  'The rainbow shows many colours, colours of sunlight.',
  'Rain bends sunlight into several colours.',
  'Water.',
]

/** A model whose prompts are indices of what was asked. `answer`: the text to a question, from its forbidden word. */
const engine = (answer: (question: number, forbidden: string | null, seed: number) => string) => {
  const asked: string[] = []
  const model = {
    contextLength: 512,
    defaults: { temperature: 0.7 },
    promptIds: ([message]: ChatMessage[]) => [asked.push(message!.content as string) - 1],
  } as unknown as Model
  const evaluator = {
    evaluate: ({ prompts, sampling }: Parameters<Evaluator['evaluate']>[0]) =>
      Promise.resolve({
        completions: prompts.map(([id]) => {
          const [, question, word] = /^question (\d+)(?:\nDo not use the word "(.*)"\.)?$/.exec(asked[id!]!)!
          return { text: answer(Number(question), word ?? null, sampling.seed), ids: [1], reason: 'stop' }
        }),
      }),
  } as unknown as Evaluator
  return { model, evaluator }
}
const prompts = Array.from({ length: 20 }, (_, i) => [{ role: 'user', content: `question ${i}` }])
const measured = (answer: Parameters<typeof engine>[0]) =>
  measureNegation(engine(answer), { prompts }, { maxTokens: 64 })

test('the most frequent long word that the question does not have is forbidden', () => {
  equal(wordToForbid('What is a rainbow?', ANSWERS[0]!), 'colours')
  equal(wordToForbid('Which colours?', ANSWERS[0]!), 'rainbow')
  equal(wordToForbid('', 'It is so.'), null)
})

test('fresh answers with the forbidden word are counted, without and with the instruction', async () => {
  const text = (i: number): string => ANSWERS[i % 3]!
  // Of 16 questions six have the first answer, five the second, five the third.
  deepEqual(await measured(text), { negation_asked: 16, negation_without: 16, negation_with: 16 })
  deepEqual(await measured((i, word) => (word === null ? text(i) : 'Something else.')), {
    negation_asked: 16,
    negation_without: 16,
    negation_with: 0,
  })
  const rare = await measured((i, word, seed) => (word === null && seed > 6_000_000 ? 'Another one.' : text(i)))
  deepEqual(rare, { negation_asked: 16, negation_without: 0, negation_with: 16 }, 'it is named, so it is said')
})

test('answers without a long word, and prompts that do not fit, are not asked again', async () => {
  deepEqual(await measured((i) => (i < 4 ? ANSWERS[0]! : 'No.')), {
    negation_asked: 4,
    negation_without: 4,
    negation_with: 4,
  })
  const { model, evaluator } = engine(() => ANSWERS[0]!)
  deepEqual(
    await measureNegation(
      { evaluator, model: { ...model, contextLength: 60 } as Model },
      { prompts },
      { maxTokens: 64 },
    ),
    {
      negation_asked: 16,
      negation_without: 16,
      negation_with: 16,
    },
  )
  deepEqual(
    await measureNegation(
      { evaluator, model: { ...model, contextLength: 32 } as Model },
      { prompts },
      { maxTokens: 64 },
    ),
    {
      negation_asked: 0,
      negation_without: 0,
      negation_with: 0,
    },
  )
})
