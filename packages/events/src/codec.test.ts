import assert from 'node:assert/strict'
import { test } from 'node:test'
import avro from 'avsc'
import { decodeReadable, decodeRecord, encodeEvent, schemaTexts, written as writtenText } from './codec.ts'
import { FLOW, isReadable, NEWEST, newestVersion, RELEASED, TOPICS, type Versions } from './flow.ts'
import { recordId } from './ids.ts'
import type { BatchSealed, HeadMoved, SessionLinked } from './records.ts'

type Field = { name: string; type: unknown; default?: unknown }
type Schema = { name: string; namespace: string; fields: Field[] }

test('every version of every record has a schema, and Avro resolves each into the newest version', () => {
  const texts = schemaTexts()
  const expected = TOPICS.flatMap((topic) =>
    FLOW[topic].records.flatMap((name) => Array.from({ length: newestVersion(name) }, (_, i) => `${name}.v${i + 1}`)),
  )
  assert.deepEqual(Object.keys(texts).toSorted(), expected.toSorted())
  const typeOf = (schema: string): avro.Type =>
    avro.Type.forSchema(JSON.parse(texts[schema]!) as avro.Schema, { wrapUnions: false })
  const later = expected.filter((schema) => !schema.endsWith('.v1'))
  assert.ok(later.includes('TurnCaptured.v2'))
  for (const schema of later) {
    const [name, version] = schema.split('.v') as [string, string]
    for (let before = 1; before < Number(version); before += 1)
      assert.ok(typeOf(schema).createResolver(typeOf(`${name}.v${before}`)), `${schema} reads v${before}`)
    // Version 2 of these three adds an enum symbol; no build that reads with the writer's schema is at version 1 of
    // them.
    const first = ['TurnCaptured', 'TurnAborted', 'TurnSampled'].includes(name) ? 2 : 1
    for (let before = first; before < Number(version); before += 1)
      assert.ok(typeOf(`${name}.v${before}`).createResolver(typeOf(schema)), `v${before} reads ${schema}`)
  }
})

test('records of any length are encoded as by the library, and stay so while others are encoded', () => {
  const texts = schemaTexts()
  const type = avro.Type.forSchema(JSON.parse(texts['SessionLinked.v1']!) as avro.Schema, { wrapUnions: false })
  const events = [10, 1000, 1024, 1100, 65_000, 65_500, 65_536, 200_000].map((length): SessionLinked => ({
    type: 'SessionLinked',
    session: 'desk',
    parent: 'x'.repeat(length),
    at: 1,
  }))
  const records = events.map((event) => encodeEvent(event))
  for (const [at, { payload }] of records.entries()) assert.deepEqual(payload, type.toBuffer(events[at]))
})

test('a text is written as UTF-8, with U+FFFD in place of half a character', () => {
  for (const text of ['naïve 漢字 😀', '\ud800', 'a\udc00b', '\ufeffbegins'])
    assert.deepEqual(new Uint8Array(writtenText(text).bytes), new TextEncoder().encode(text))
})

test('a new version adds fields with defaults and removes none', () => {
  const texts = schemaTexts()
  const fieldsOf = (schema: string): Map<string, { default?: unknown }> =>
    new Map((JSON.parse(texts[schema]!) as Schema).fields.map((field) => [field.name, field]))
  const [old, now] = [fieldsOf('TurnCaptured.v1'), fieldsOf('TurnCaptured.v4')]
  assert.deepEqual(
    [...old.keys()].filter((name) => !now.has(name)),
    [],
  )
  assert.deepEqual(
    [...now].filter(([name]) => !old.has(name)),
    ['userTurn', 'task', 'agent'].map((name) => [name, { name, type: ['null', 'string'], default: null }]),
  )
})

/** A record of a newer build, in the schema `newer`; `change` derives it from `schema`. */
const written = (schema: string, newer: string, change: (schema: Schema) => void, event: object) => {
  const parsed = JSON.parse(schemaTexts()[schema]!) as Schema
  change(parsed)
  const avroText = JSON.stringify(parsed)
  const payload = avro.Type.forSchema(parsed as unknown as avro.Schema, { wrapUnions: false }).toBuffer(event)
  const topic = TOPICS.find((one) => parsed.namespace === `instar.${one}`)!
  return { topic, key: 'k', schema: newer, payload, timestamp: 5, partition: 0, offset: 3, avro: avroText }
}

const LINKED = { session: 's', parent: 'r', at: 8 }
const withNote = (schema: Schema): void =>
  void schema.fields.splice(1, 0, { name: 'note', type: ['null', 'string'], default: null })

test("a newer version is read with its writer's schema: added fields are dropped, the id is that of its bytes", () => {
  const record = written('SessionLinked.v1', 'SessionLinked.v7', withNote, { ...LINKED, note: 'new' })
  const { id, event } = decodeRecord(record)
  assert.deepEqual({ ...event }, { type: 'SessionLinked', ...LINKED })
  assert.equal(id, recordId(record))
  const known = encodeEvent({ type: 'SessionLinked', ...LINKED } as SessionLinked)
  assert.notEqual(id, known.id)
})

test('a newer version may add fields to nested records; bytes are preserved', () => {
  const batch: BatchSealed = {
    type: 'BatchSealed',
    prev: 'p',
    policy: 'policy',
    number: 1,
    parent: { version: 0, adapter: null, state: null },
    items: [
      {
        turn: 't',
        record: 'r',
        session: 's',
        score: 'q',
        subject: 'u',
        version: 0,
        reward: 1,
        baseline: 0,
        advantage: 1,
        hint: { keyId: null, bytes: Buffer.from('né') },
      },
    ],
    dropped: [],
    baselines: [],
    seed: 7,
    loss: 'hybrid',
    settings: { rank: 4 },
    at: 9,
  }
  const addWeight = (schema: Schema): void => {
    const items = schema.fields.find(({ name }) => name === 'items')!.type as { items: { fields: Field[] } }
    items.items.fields.unshift({ name: 'weight', type: 'double', default: 1 })
  }
  const { event } = decodeRecord(
    written('BatchSealed.v1', 'BatchSealed.v9', addWeight, {
      ...batch,
      items: batch.items.map((item) => ({ weight: 0.5, ...item })),
    }),
  )
  const items = batch.items.map((item) => ({ ...item, turnScore: null, outcome: null, closing: null }))
  assert.deepEqual(JSON.parse(JSON.stringify(event)), JSON.parse(JSON.stringify({ ...batch, items })))
})

test('an unknown type, an incompatible version and a version without its schema are unknown_record', () => {
  const stops = (record: Parameters<typeof decodeRecord>[0], why: RegExp): void =>
    assert.throws(
      () => decodeRecord(record),
      (error: { code?: string; message: string }) => error.code === 'unknown_record' && why.test(error.message),
    )
  const good = written('SessionLinked.v1', 'SessionLinked.v8', withNote, { ...LINKED, note: null })
  stops({ ...good, schema: 'SessionRenamed.v1' }, /which this build does not know/)
  stops({ ...good, avro: undefined } as unknown as typeof good, /neither in this build nor on the log/)
  stops(
    written(
      'SessionLinked.v1',
      'SessionLinked.v9',
      (schema) => {
        schema.fields = schema.fields.filter(({ name }) => name !== 'parent')
      },
      LINKED,
    ),
    /cannot be read as SessionLinked\.v1/,
  )
  stops({ ...good, schema: 'SessionLinked.v10', avro: '{' }, /cannot be read as/)
  assert.throws(() => decodeRecord({ ...good, payload: Buffer.from([200]) }), { code: 'bad_record' })
})

test('a newer version with a value in an essential field stops the reader; without a value it is read', () => {
  const essential = (schema: Schema): void =>
    void schema.fields.splice(1, 0, {
      name: 'imported',
      type: ['null', 'string'],
      default: null,
      essential: true,
    } as Field)
  const record = (imported: string | null) =>
    written('SessionLinked.v1', 'SessionLinked.v12', essential, { ...LINKED, imported })
  assert.throws(() => decodeRecord(record('adapter')), {
    code: 'unknown_record',
    message: /whose field imported this build does not know and must not ignore/,
  })
  assert.deepEqual({ ...decodeRecord(record(null)).event }, { type: 'SessionLinked', ...LINKED })
})

/** The newest versions of which the fields do not say whether a reader may ignore them (docs/decisions.md). */
const UNMARKED: Record<string, number> = {
  BatchSealed: 2,
  BlobChunk: 1,
  FeedbackGiven: 1,
  HeadMoved: 1,
  LearningFrozen: 1,
  LineStarted: 2,
  LogCut: 1,
  ReadersUpgraded: 1,
  ResponseDeleted: 1,
  ScoreRevised: 1,
  SessionClosed: 3,
  SessionLinked: 1,
  SettingsChanged: 1,
  StateCheckpointed: 1,
  TrainerBound: 1,
  TrainerScored: 1,
  TurnAborted: 4,
  TurnCaptured: 4,
  TurnSampled: 4,
  TurnScored: 1,
  TurnSkipped: 1,
  UpdateComputed: 2,
  UpdateFailed: 1,
  UpdateRequested: 1,
  VersionPublished: 3,
  VersionRejected: 3,
}

test('each further version says of each field that it adds whether a reader may ignore it', () => {
  const texts = schemaTexts()
  const fieldsOf = (schema: string) =>
    (JSON.parse(texts[schema] ?? '{"fields":[]}') as { fields: (Field & { essential?: unknown })[] }).fields
  for (const schema of Object.keys(texts)) {
    const [name = '', version = ''] = schema.split('.v')
    if (Number(version) <= (UNMARKED[name] ?? 1)) continue
    const before = new Set(fieldsOf(`${name}.v${Number(version) - 1}`).map((field) => field.name))
    for (const field of fieldsOf(schema))
      if (!before.has(field.name)) {
        assert.equal(typeof field.essential, 'boolean', `${schema}: "essential" of ${field.name}`)
        if (field.essential === true) assert.equal(field.default, null, `${schema}: the default of ${field.name}`)
      }
  }
})

test('two logs may have different schemas under one name that this build does not know', () => {
  const one = written('SessionLinked.v1', 'SessionLinked.v11', withNote, { ...LINKED, note: 'a' })
  const other = written(
    'SessionLinked.v1',
    'SessionLinked.v11',
    (schema) => {
      schema.fields.push({ name: 'more', type: 'long', default: 0 })
    },
    { ...LINKED, more: 3 },
  )
  for (const record of [one, other, one])
    assert.deepEqual({ ...decodeRecord(record).event }, { type: 'SessionLinked', ...LINKED })
})

const MOVED: HeadMoved = {
  type: 'HeadMoved',
  prev: 'p',
  policy: 'policy',
  from: 2,
  to: 1,
  who: 'w',
  why: 'y',
  request: 'q',
  freeze: true,
  at: 12,
}

test('a record is written in the version that all readers support; a type that they do not support is refused', () => {
  const before: Versions = new Map([
    ['TurnCaptured', 1],
    ['HeadMoved', 1],
  ])
  assert.equal(encodeEvent(MOVED, before).schema, 'HeadMoved.v1')
  assert.throws(() => encodeEvent({ type: 'SessionLinked', ...LINKED }, before), { code: 'not_announced' })
  assert.equal(encodeEvent(MOVED, new Map([['HeadMoved', 99]])).schema, `HeadMoved.v${newestVersion('HeadMoved')}`)
  assert.ok(
    !isReadable(before, 'SessionLinked') && isReadable(before, 'HeadMoved') && !isReadable(before, 'HeadMoved', 2),
  )
})

test('the record versions that may be written without an announcement do not change', () => {
  assert.deepEqual(Object.fromEntries(RELEASED), {
    TurnCaptured: 2,
    TurnAborted: 2,
    TurnSampled: 2,
    FeedbackGiven: 1,
    SessionClosed: 1,
    SessionLinked: 1,
    TurnScored: 1,
    TurnSkipped: 1,
    ScoreRevised: 1,
    BatchSealed: 1,
    UpdateComputed: 1,
    UpdateFailed: 1,
    LineStarted: 1,
    VersionPublished: 1,
    VersionRejected: 1,
    HeadMoved: 1,
    LearningFrozen: 1,
    BlobChunk: 1,
    ReadersUpgraded: 1,
  })
  for (const [name, version] of RELEASED) assert.ok((NEWEST.get(name) ?? 0) >= version, name)
})

test('a record that states a billion items in a few bytes is refused, in every version of every record', () => {
  // A billion as an Avro long, at every position at which an item count may be.
  const billion = Buffer.from([0x80, 0xa8, 0xd6, 0xb9, 0x07])
  const began = performance.now()
  for (const schema of Object.keys(schemaTexts())) {
    const topic = TOPICS.find((name) => (FLOW[name].records as readonly string[]).includes(schema.split('.')[0]!))!
    for (let zeros = 0; zeros < 60; zeros += 1) {
      const record = {
        topic,
        key: 'k',
        schema,
        payload: Buffer.concat([Buffer.alloc(zeros), billion]),
        timestamp: 0,
        partition: 0,
        offset: 0,
      }
      const read = decodeReadable(record)?.event
      for (const list of Object.values(read ?? {}))
        assert.ok(!Array.isArray(list) || list.length === 0, `${schema} after ${zeros} bytes`)
    }
  }
  const ms = performance.now() - began
  assert.ok(ms < 5000, `${ms} ms for ${60 * Object.keys(schemaTexts()).length} records`)
})
