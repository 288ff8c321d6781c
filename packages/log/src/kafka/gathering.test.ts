import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Gathering } from './gathering.ts'

type Part = { readonly of: 'turns' | 'updates' }
const TURNS: Part = { of: 'turns' }
const UPDATES: Part = { of: 'updates' }
const FROM = new Map([
  [TURNS, 5],
  [UPDATES, 5],
])
const gathering = (): Gathering<Part> =>
  new Gathering({ topics: ['turns'], ms: 250 }, [TURNS, UPDATES], { all: 5000, some: 500 })
const brought = (progress: Part, next: number, end: number) => [{ progress, batch: { next, end } }]

test('after a fetch with the last records of a topic that may be late, the next ones name the others alone, for so long', () => {
  const of = gathering()
  assert.deepEqual(of.due(1000, false), { partitions: [TURNS, UPDATES], waitMs: 5000 })
  of.fetched(brought(TURNS, 7, 7), FROM, 1000)
  assert.deepEqual(of.due(1000, false), { partitions: [UPDATES], waitMs: 250 })
  of.fetched(brought(UPDATES, 6, 6), FROM, 1100.5)
  assert.deepEqual(of.due(1100.5, false), { partitions: [UPDATES], waitMs: 150 })
  assert.deepEqual(of.due(1250, false), { partitions: [TURNS, UPDATES], waitMs: 5000 })
})

test('nothing is late while there are more records than a fetch brings, without any, and for whoever waits for all', () => {
  const of = gathering()
  of.fetched(brought(TURNS, 7, 8), FROM, 1000)
  of.fetched(brought(TURNS, 5, 5), FROM, 1000)
  assert.equal(of.due(1000, false).partitions.length, 2)
  of.fetched(brought(TURNS, 7, 7), FROM, 1000)
  assert.equal(of.due(1000, true).partitions.length, 2)
})

test('without topics that may be late each fetch names all partitions', () => {
  const of = new Gathering(undefined, [TURNS, UPDATES], { all: 5000, some: 500 })
  of.fetched(brought(TURNS, 7, 7), FROM, 1000)
  assert.equal(of.due(1000, false).partitions.length, 2)
})

test('a fetch of some partitions waits no longer than others of its kind, however late records may be', () => {
  const of = new Gathering({ topics: ['turns'], ms: 60_000 }, [TURNS, UPDATES], { all: 5000, some: 500 })
  of.fetched(brought(TURNS, 7, 7), FROM, 1000)
  assert.deepEqual(of.due(1000, false), { partitions: [UPDATES], waitMs: 500 })
})
