import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '@instar/dialects'
import { kindOf } from './side.ts'

const user = (content: string): Message => ({ role: 'user', content })
const tool = { type: 'function', function: { name: 'read' } }
const asked = (messages: Message[], tools: unknown[] = [tool]) => ({ messages, tools })

test('a header says what a request is, whatever its words', () => {
  const plain = asked([user('hello')])
  for (const [name, value, kind] of [
    ['x-instar-turn-kind', 'side', 'side'],
    ['x-turn-type', 'main', 'main'],
    ['x-claude-code-request-class', 'compaction', 'side'],
    ['x-claude-code-request-class', 'auxiliary', 'side'],
    ['x-claude-code-request-class', 'subagent', 'main'],
    ['x-openai-subagent', 'compact', 'side'],
    ['x-openai-subagent', 'collab_spawn', 'main'],
    ['x-codex-turn-metadata', '{"request_kind":"compaction"}', 'side'],
    ['x-codex-turn-metadata', '{"request_kind":"turn"}', 'main'],
    ['x-codex-turn-metadata', 'no json', 'main'],
  ] as const)
    assert.equal(kindOf({ [name]: value }, plain, true), kind, `${name}: ${value}`)
  assert.equal(
    kindOf(
      { 'x-instar-turn-kind': 'main' },
      asked([{ role: 'system', content: 'You are a title generator.' }, user('hello')], []),
      true,
    ),
    'main',
  )
})

test('without a header: the words of titles, summaries and compactions', () => {
  const system = (content: unknown): Message => ({ role: 'system', content })
  for (const messages of [
    [system('You are a title generator. You output ONLY a title.'), user('fix it')],
    [system([{ type: 'text', text: 'You are a context summarization agent.' }]), user('the transcript')],
    [system('You are naming a coding session.'), user('fix it')],
    [system('You are now acting as the managed memory extraction subagent.'), user('extract')],
    [
      system('You are a coding agent.'),
      user('fix it'),
      { role: 'assistant', content: 'done' },
      user('You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary.'),
    ],
    [
      user('fix it'),
      { role: 'assistant', content: 'done' },
      user('CRITICAL: Respond with TEXT ONLY. Do not call tools.'),
    ],
  ])
    assert.equal(kindOf({}, asked(messages), null), 'side')
  assert.equal(
    kindOf({}, asked([system('You are a coding agent.'), user('You are a title generator, are you not?')]), null),
    'main',
  )
})

test('tools that are all gone in a session that had them; other tools or another system text prove nothing', () => {
  assert.equal(kindOf({}, asked([user('sum up')], []), true), 'side')
  assert.equal(kindOf({}, asked([user('hello')], []), false), 'main')
  assert.equal(kindOf({}, asked([user('hello')], []), null), 'main')
  assert.equal(kindOf({}, asked([user('hello')], [{ type: 'function', function: { name: 'other' } }]), true), 'main')
})
