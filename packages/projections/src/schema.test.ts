import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { is } from 'drizzle-orm'
import { getTableConfig, getViewConfig, PgTable, PgView } from 'drizzle-orm/pg-core'
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import * as schema from './schema.ts'

const MIGRATIONS = new URL('../../../migrations/', import.meta.url)
const read = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, MIGRATIONS), 'utf8')) as T

test('the committed migrations lead to the schema', async () => {
  const { entries } = read<{ entries: { idx: number }[] }>('meta/_journal.json')
  const last = read<Parameters<typeof generateMigration>[0]>(
    `meta/${String(entries.at(-1)?.idx).padStart(4, '0')}_snapshot.json`,
  )
  assert.deepEqual(
    await generateMigration(last, generateDrizzleJson(schema, last.id)),
    [],
    'run npx drizzle-kit generate',
  )
})

test('the columns that scripts rely on', () => {
  const columns = new Map<string, string[]>()
  for (const one of Object.values(schema)) {
    if (is(one, PgTable))
      columns.set(
        getTableConfig(one).name,
        getTableConfig(one).columns.map(({ name }) => name),
      )
    if (is(one, PgView)) columns.set(getViewConfig(one).name, Object.keys(getViewConfig(one).selectedFields))
  }
  const promised: Record<string, string[]> = {
    turns: [
      'turn_id',
      'session_id',
      'version',
      'dialect',
      'kind',
      'label_source',
      'status',
      'trainable',
      'reason',
      'next_turn_id',
      'prompt_tokens',
      'completion_tokens',
      'started_at',
      'finished_at',
    ],
    scores: ['turn_id', 'revision', 'reward', 'judge', 'hint'],
    versions: ['version', 'parent', 'sha256', 'status'],
    version_turns: ['version', 'turn_id', 'turn_score', 'outcome', 'closing', 'outcome_advantage', 'score_advantage'],
    session_closings: ['record_id', 'session_id', 'why', 'discarded', 'outcome', 'task'],
    version_metrics: ['version'],
    sessions: ['session_id'],
    updates: ['number'],
    head_moves: ['from_version', 'to_version'],
    ignored: ['topic', 'key', 'record_id', 'type', 'why'],
    offsets: ['topic', 'partition'],
  }
  for (const [table, names] of Object.entries(promised)) {
    assert.deepEqual(
      names.filter((name) => !columns.get(table)?.includes(name)),
      [],
      table,
    )
  }
})
