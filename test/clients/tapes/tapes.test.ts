/**
 * Recorded requests of clients and agents, sent again: sessions, kinds, attempts, next states and their texts equal the
 * recording. The rule that each of them needs: docs/agents.md.
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { replay, tapeNamed } from './replay.ts'

for (const file of readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.jsonl'))
  .toSorted()) {
  const name = file.slice(0, -'.jsonl'.length)
  const { client, became, requests } = tapeNamed(name)
  test(`the tape ${name} (${client}) gives the recorded sessions, joins and kinds of turns`, async () => {
    assert.deepEqual(await replay(requests), became)
  })
}
