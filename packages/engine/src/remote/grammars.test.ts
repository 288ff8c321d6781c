/** Grammars for engines behind HTTP, written in a thread of their own. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { InstarError } from '@instar/events'
import type { Constraint } from '../port.ts'
import { ebnfOf } from '@instar/grammar'
import { Grammars } from './grammars.ts'

const asking = (schema: unknown): Constraint => ({
  json: { field: 'response_format', schema },
  calls: [],
  mostCalls: 1,
  insideReasoning: false,
})
const GOOD = asking({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
})
const BAD = asking({ type: 'string', pattern: '(?=x)y' })

/** Some dozens of milliseconds of work. */
const LARGE = asking({
  type: 'object',
  properties: Object.fromEntries(
    Array.from({ length: 1500 }, (_, i) => [`field_${i}`, { type: 'string', maxLength: 20 + i }]),
  ),
})

const opened = (t: TestContext): Grammars => {
  const grammars = new Grammars({})
  t.after(() => grammars.close())
  return grammars
}

test('what is written is what would be written here, once for all that ask', async (t) => {
  const grammars = opened(t)
  const all = await Promise.all([grammars.of(GOOD), grammars.of(GOOD), grammars.of(asking({ type: 'boolean' }))])
  assert.deepEqual(all, [ebnfOf(GOOD, false), ebnfOf(GOOD, false), ebnfOf(asking({ type: 'boolean' }), false)])
})

test('what is refused is refused as it would be here, and again', async (t) => {
  const grammars = opened(t)
  const told = (work: () => unknown): Promise<unknown> =>
    Promise.resolve()
      .then(work)
      .then(
        () => null,
        (error: unknown) => error instanceof InstarError && [error.code, error.message, { ...error.details }],
      )
  const here = await told(() => ebnfOf(BAD, false))
  assert.ok(Array.isArray(here) && here[0] === 'bad_request')
  assert.deepEqual([await told(() => grammars.of(BAD)), await told(() => grammars.of(BAD))], [here, here])
})

test('the event loop turns while a large schema is looked at', async (t) => {
  const grammars = opened(t)
  await grammars.of(GOOD)
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

test('a thread that ends refuses what waits for it, and the next is written by another', async (t) => {
  const grammars = opened(t)
  await grammars.of(GOOD)
  const waiting = assert.rejects(grammars.of(LARGE), { code: 'internal' })
  await grammars.close()
  await waiting
  assert.equal(await grammars.of(asking({ type: 'integer' })), ebnfOf(asking({ type: 'integer' }), false))
})
