/** The fixed prompts of a gate, on a model of which only the length of prompts counts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Model } from '@instar/engine/port'
import { publisherConfig } from '../config.ts'
import { fixedPrompts, promptShortage } from './base.ts'
import type { ProbeSet } from './probes.ts'

const asked = (count: number): ProbeSet => ({
  probes: [],
  own: 0,
  prompts: Array.from({ length: count }, () => [{ role: 'user', content: 'What is new?' }]),
})
let rendered = 0
const model = {
  contextLength: 100,
  promptIds() {
    rendered += 1
    return Array.from({ length: 40 }, () => 1)
  },
} as Partial<Model> as Model

test('a verdict renders as many fixed prompts as it samples, not all own probes', () => {
  rendered = 0
  assert.equal(fixedPrompts(model, asked(5000), publisherConfig.parse({ maxTokens: 60, fixedSamples: 3 })).length, 3)
  assert.equal(rendered, 3)
})

test('a limit of a sampled answer with which no fixed prompt fits the context is said', () => {
  const shortage = (settings: object, count = 8): string =>
    promptShortage(model, asked(count), publisherConfig.parse(settings))
  assert.equal(shortage({ maxTokens: 60 }), '')
  assert.match(
    shortage({ maxTokens: 61 }),
    /^the gate has no fixed prompt: none of 8 leaves room for gate\.maxTokens 61 in a context of 100 tokens/,
  )
  assert.equal(shortage({ maxTokens: 61, fixedSamples: 0 }), '', 'none is wanted')
  assert.equal(shortage({ maxTokens: 61 }, 0), '', 'there is none')
})
