/** Grammars for remote engines, compiled in a worker thread. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { InstarError } from '@instar/events'
import type { Constraint } from '../port.ts'
import { ebnfOf } from '@instar/grammar'
import { Grammars } from './grammars.ts'

const jsonConstraint = (schema: unknown): Constraint => ({
  json: { field: 'response_format', schema },
  calls: [],
  maxCalls: 1,
  insideReasoning: false,
})
const SUPPORTED = jsonConstraint({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
})
const UNSUPPORTED = jsonConstraint({ type: 'string', pattern: '(?=x)y' })

/** Compiles in some tens of milliseconds. */
const LARGE = jsonConstraint({
  type: 'object',
  properties: Object.fromEntries(
    Array.from({ length: 1500 }, (_, i) => [`field_${i}`, { type: 'string', maxLength: 20 + i }]),
  ),
})

const openGrammars = (t: TestContext): Grammars => {
  const grammars = new Grammars({})
  t.after(() => grammars.close())
  return grammars
}

test('the thread returns the grammars of ebnfOf', async (t) => {
  const grammars = openGrammars(t)
  const all = await Promise.all([
    grammars.of(SUPPORTED),
    grammars.of(SUPPORTED),
    grammars.of(jsonConstraint({ type: 'boolean' })),
  ])
  assert.deepEqual(all, [
    ebnfOf(SUPPORTED, false),
    ebnfOf(SUPPORTED, false),
    ebnfOf(jsonConstraint({ type: 'boolean' }), false),
  ])
})

test('the thread returns the errors of ebnfOf, also for a repeated call', async (t) => {
  const grammars = openGrammars(t)
  const errorOf = (work: () => unknown): Promise<unknown> =>
    Promise.resolve()
      .then(work)
      .then(
        () => null,
        (error: unknown) => error instanceof InstarError && [error.code, error.message, { ...error.details }],
      )
  const expected = await errorOf(() => ebnfOf(UNSUPPORTED, false))
  assert.ok(Array.isArray(expected) && expected[0] === 'bad_request')
  assert.deepEqual(
    [await errorOf(() => grammars.of(UNSUPPORTED)), await errorOf(() => grammars.of(UNSUPPORTED))],
    [expected, expected],
  )
})

test('the event loop is not blocked while a large schema is compiled', async (t) => {
  const grammars = openGrammars(t)
  await grammars.of(SUPPORTED)
  let turns = 0
  let done = false
  const work = grammars
    .of(LARGE)
    .catch((error: unknown) => error)
    .finally(() => {
      done = true
    })
  while (!done) {
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
    turns += 1
  }
  await work
  assert.ok(turns > 100, `${turns} turns`)
})

test('if the thread ends, pending calls reject, and the next call starts another thread', async (t) => {
  const grammars = openGrammars(t)
  await grammars.of(SUPPORTED)
  const waiting = assert.rejects(grammars.of(LARGE), { code: 'internal' })
  await grammars.close()
  await waiting
  assert.equal(
    await grammars.of(jsonConstraint({ type: 'integer' })),
    ebnfOf(jsonConstraint({ type: 'integer' }), false),
  )
})
