/** What is read of a judging model's reply. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseVote } from './llm.ts'

const VERDICT = '{"reason": "Thanks.", "verdict": "good", "hint": ""}'

test('the last object with a verdict counts, whatever a model thought aloud before and behind it', () => {
  for (const reply of [
    VERDICT,
    `{"verdict": "bad"} no, {"a": {}} rather\n\`\`\`json\n${VERDICT}\n\`\`\` {as said}`,
    `${'Is {this} good? '.repeat(60_000)}${VERDICT}`,
  ])
    assert.deepEqual(parseVote(reply), { value: 1, hint: null, note: 'good' })
})

test('a reply made to be parsed again and again costs a bounded number of characters, and is no verdict', (t) => {
  const { parse } = JSON
  let characters = 0
  t.mock.method(JSON, 'parse', (text: string): unknown => {
    characters += text.length
    return parse(text)
  })
  for (const [open, inner] of [
    ['{"a":[', '1,'],
    ['{"a":"', 'x'],
    ['{', '{'],
  ] as const)
    for (const length of [1000, 30_000, 1_000_000]) {
      characters = 0
      const { value, failed } = parseVote(`${open}${inner.repeat(length / inner.length)}1${'}'.repeat(256)}`)
      assert.deepEqual([value, failed], [null, true])
      assert.ok(characters <= 512 * 1024, `${characters} characters of ${length} were parsed`)
    }
})
