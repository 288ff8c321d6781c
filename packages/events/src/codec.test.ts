import assert from 'node:assert/strict'
import { test } from 'node:test'
import avro from 'avsc'
import { schemaTexts } from './codec.ts'
import { FLOW, TOPICS, writtenVersion } from './flow.ts'

type Schema = { fields: { name: string; default?: unknown }[] }

test('a schema is there in every version, and the one that is written reads all before it by Avro\'s own rules', () => {
  const texts = schemaTexts()
  const expected = TOPICS.flatMap((topic) => FLOW[topic].records.flatMap((name) => Array.from({ length: writtenVersion(name) }, (_, i) => `${name}.v${i + 1}`)))
  assert.deepEqual(Object.keys(texts).toSorted(), expected.toSorted())
  const typeOf = (schema: string): avro.Type => avro.Type.forSchema(JSON.parse(texts[schema]!) as avro.Schema, { wrapUnions: false })
  const later = expected.filter((schema) => !schema.endsWith('.v1'))
  assert.deepEqual(later, ['TurnCaptured.v2', 'TurnAborted.v2', 'TurnSampled.v2'])
  for (const schema of later) {
    const [name, version] = schema.split('.v') as [string, string]
    for (let before = 1; before < Number(version); before += 1) assert.ok(typeOf(schema).createResolver(typeOf(`${name}.v${before}`)), `${schema} reads v${before}`)
  }
})

test('what a version adds has a default, and nothing is taken away', () => {
  const texts = schemaTexts()
  const fieldsOf = (schema: string): Map<string, { default?: unknown }> => new Map((JSON.parse(texts[schema]!) as Schema).fields.map((field) => [field.name, field]))
  const [old, now] = [fieldsOf('TurnCaptured.v1'), fieldsOf('TurnCaptured.v2')]
  assert.deepEqual([...old.keys()].filter((name) => !now.has(name)), [])
  assert.deepEqual([...now].filter(([name]) => !old.has(name)), [['userTurn', { name: 'userTurn', type: ['null', 'string'], default: null }]])
})
