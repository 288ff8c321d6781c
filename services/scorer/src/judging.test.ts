/** What is held when its partition is given up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BatchSealed, Event } from '@instar/events'
import { logged } from '../../../test/kit/scored-history.ts'
import { thanked, versions } from '../../../test/kit/slow-judge.ts'
import { decide } from './core/decide.ts'
import { evolve, initialState } from './core/state.ts'
import { createJudging } from './judging.ts'

test('a held turn whose partition was given up is not skipped as surplus, and is put back for its new owner', () => {
  const state = initialState()
  let offset = 0
  const read = (...events: Event[]): void => {
    for (const event of events) evolve(state, logged(event, offset++))
  }
  const appended: string[] = []
  const given = new Set<number>()
  const rules = { idleMs: 1e9, judgesNeedNextState: true, staleness: 4, waiting: 1 }
  const judging = createJudging({
    state,
    signal: new AbortController().signal,
    now: () => 1000,
    concurrency: 4,
    most: 3,
    rules: () => rules,
    assigned: (partition) => !given.has(partition),
    judge: () => new Promise(() => undefined),
    append: ({ event }) => void appended.push('session' in event ? event.session : ''),
    background: () => undefined,
    wake: () => undefined,
  })
  const push = (): void => {
    for (const output of decide(state, rules, 1000)) if (output.do === 'judge') judging.push(output)
  }
  read(...versions(1))
  state.waiting.foldBatch({ policy: 'policy', items: [{ turn: 'z' }], dropped: [] } as unknown as BatchSealed)
  read(...[0, 1, 2].flatMap((n) => thanked(n, 1)))
  push()
  judging.start()
  assert.deepEqual([judging.judging(), judging.held()], [1, 2])
  given.add(0)
  read(...[10, 11].flatMap((n) => thanked(n, 1)))
  push()
  const oldest = thanked(0, 1)[0]!.turn
  assert.deepEqual([appended, state.work.has(oldest), state.needed.has(oldest)], [[], false, true])
})
