import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DIALECTS } from '@instar/dialects'
import { constraintOf } from './constraint.ts'

const SCHEMA = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] }
const HI = [{ role: 'user', content: 'Hi' }]
const JSON_FORMAT = { type: 'json_schema', schema: SCHEMA }
const inChat = (strict: boolean) => ({
  type: 'function',
  function: { name: strict ? 'held' : 'free', parameters: SCHEMA, strict },
})

test("in every dialect a strict function's arguments are of its schema where it may be called beside a format; another's are any object", () => {
  const bodies = {
    chat: {
      messages: HI,
      response_format: { type: 'json_schema', json_schema: JSON_FORMAT },
      tools: [inChat(true), inChat(false)],
    },
    responses: {
      input: 'Hi',
      text: { format: JSON_FORMAT },
      tools: [true, false].map((strict) => ({ type: 'function', ...inChat(strict).function })),
    },
    messages: {
      messages: HI,
      max_tokens: 5,
      output_config: { format: JSON_FORMAT },
      tools: [true, false].map((strict) => ({ name: strict ? 'held' : 'free', input_schema: SCHEMA, strict })),
    },
  }
  for (const [name, body] of Object.entries(bodies)) {
    const dialect = DIALECTS[name as keyof typeof bodies]
    const constraint = constraintOf(dialect, dialect.request(body), false)
    assert.deepEqual(
      constraint?.calls,
      [
        { name: 'held', parameters: SCHEMA },
        { name: 'free', parameters: { type: 'object' } },
      ],
      name,
    )
  }
})
