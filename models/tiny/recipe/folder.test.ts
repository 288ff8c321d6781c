import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openModel } from '@instar/policy'
import { encoder } from './bpe.ts'
import { pieces } from './chat.ts'
import { converse } from './corpus.ts'
import { folderFiles, trainedBpe } from './make-tokenizer.ts'
import { seeded } from './random.ts'

const file = (name: string): string => fileURLToPath(new URL(`../${name}`, import.meta.url))

test('tokenizer, template, configuration and probes of the folder are what the recipe makes', () => {
  for (const [name, text] of Object.entries(folderFiles(trainedBpe())))
    assert.ok(readFileSync(file(name), 'utf8') === text, name)
})

test('the weights are those that README describes, and fit in 8 MB', () => {
  const sha256 = createHash('sha256')
    .update(readFileSync(file('model.safetensors')))
    .digest('hex')
  assert.ok(readFileSync(file('README.md'), 'utf8').includes(sha256), sha256)
  assert.ok(statSync(file('model.safetensors')).size <= 8_000_000)
})

test('a served prompt has the very ids that the model was trained on', async () => {
  const model = await openModel(file('.'))
  assert.deepEqual([...model.endOfTurn], [2])
  assert.equal(model.contextLength, 2_048)
  assert.equal(model.defaults.temperature, 0.7)
  const encode = encoder(trainedBpe())
  const random = seeded(41)
  for (let i = 0; i < 200; i++) {
    const conversation = converse(random)
    const last = conversation.turns.findLastIndex((turn) => turn.role === 'assistant')
    const turns = conversation.turns.slice(0, last)
    const messages = turns.map(({ role, content, toolCalls }) => ({
      role,
      content,
      ...(toolCalls === undefined ? {} : { tool_calls: toolCalls }),
    }))
    const expected = [
      ...pieces({ ...conversation, turns }).map((piece) => piece.text),
      '<|im_start|>assistant\n',
    ].flatMap(encode)
    assert.deepEqual(
      model.promptIds(messages, conversation.tools.length > 0 ? { tools: conversation.tools } : {}),
      expected,
    )
  }
})
