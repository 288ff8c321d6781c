import assert from 'node:assert/strict'
import { test } from 'node:test'
import { userTurnOf } from './agents.ts'

const TRACE = 'bca6bb30dc0b931cf44e4cd389da7dfc'
const traceparent = `00-${TRACE}-6fb7f08ca8a9a027-01`
const codex = (value: unknown): string => JSON.stringify(value)

test("an agent's own id takes precedence over a trace id", () => {
  for (const [headers, turn] of [
    [{}, null],
    [{ traceparent }, TRACE],
    [{ traceparent: `${traceparent}-more` }, TRACE],
    [{ traceparent, 'x-claude-code-prompt-id': 'p-1' }, 'p-1'],
    [{ traceparent, 'x-codex-turn-metadata': codex({ turn_id: 't-1' }) }, 't-1'],
    [{ 'x-codex-turn-metadata': codex({ turn_id: 'child', root_turn_id: 'root' }) }, 'root'],
    [{ 'x-claude-code-prompt-id': ' p-1 ' }, 'p-1'],
    [{ 'x-claude-code-prompt-id': ['p-1', 'p-2'] }, 'p-1'],
  ] as const)
    assert.equal(userTurnOf(headers as Record<string, string>), turn, JSON.stringify(headers))
})

test('an invalid id is ignored, and the next valid one applies', () => {
  for (const hostile of ['x'.repeat(129), 'a b', 'a\nb', '<script>', 'né', '{}', '"; drop table turns']) {
    assert.equal(userTurnOf({ 'x-claude-code-prompt-id': hostile }), null, hostile)
    assert.equal(
      userTurnOf({ 'x-codex-turn-metadata': codex({ root_turn_id: hostile, turn_id: 't-1' }) }),
      't-1',
      hostile,
    )
    assert.equal(userTurnOf({ 'x-codex-turn-metadata': codex({ turn_id: hostile }), traceparent }), TRACE, hostile)
  }
  assert.equal(userTurnOf({ 'x-claude-code-prompt-id': 'x'.repeat(128) }), 'x'.repeat(128))
  for (const metadata of [
    'no json',
    '[1]',
    'null',
    '"text"',
    codex({ turn_id: 7 }),
    codex({ turn_id: ['t'] }),
    codex({ turn_id: { toString: 't' } }),
    '[['.repeat(4000),
  ])
    assert.equal(userTurnOf({ 'x-codex-turn-metadata': metadata, traceparent }), TRACE, metadata.slice(0, 20))
  for (const trace of [
    '',
    'x',
    `00-${'0'.repeat(32)}-6fb7f08ca8a9a027-01`,
    `00-${TRACE.toUpperCase()}-6fb7f08ca8a9a027-01`,
    `00-${TRACE}`,
    `00-${TRACE}0-6fb7f08ca8a9a027-01`,
    `00-${TRACE}-6fb7f08ca8a9a027-01x`,
  ])
    assert.equal(userTurnOf({ traceparent: trace }), null, trace)
})
