/** A batch has one outcome: what a trainer finds out about one that another trainer has settled is discarded. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, updateLine } from '@instar/events'
import { idOf, Line } from '../../../../test/kit/trainer-line.ts'
import { computed, failed, failedWithParent } from './decide.ts'

const evicted = new InstarError('trainer_failed', 'load_weights failed', { kind: 'load_weights' })

/** A line whose batch 1 is sealed, and its id. */
const sealedLine = (): { line: Line; batch: string } => {
  const line = new Line()
  for (let at = 0; at < 16; at++) line.scored(idOf(at), 0)
  assert.equal(line.seal()?.number, 1)
  return { line, batch: updateLine(line.state.updates, 'policy').last }
}

test('a sealed batch that is the last one can fail', () => {
  const { line, batch } = sealedLine()
  assert.equal(failed(line.state, batch, 'x', 1)?.number, 1)
  assert.equal(failedWithParent(line.state, batch, evicted, 1), null)
})

test('a batch that was computed and accepted meanwhile does not fail, whether or not the next one is sealed', () => {
  const { line, batch } = sealedLine()
  line.publish()
  for (const next of [false, true]) {
    if (next) {
      for (let at = 16; at < 32; at++) line.scored(idOf(at), 1)
      assert.equal(line.seal()?.number, 2)
    }
    assert.equal(failed(line.state, batch, 'x', 1), null)
    assert.equal(failedWithParent(line.state, batch, evicted, 1), null)
    assert.equal(computed(line.state, batch, {} as never, 1), null)
  }
  assert.equal(updateLine(line.state.updates, 'policy').failed, 0)
})

test('a batch that is not the last one does not fail, nor one that is not on the line', () => {
  const { line, batch } = sealedLine()
  const first = updateLine(line.state.updates, 'policy').byId.get(batch)!
  line.publish()
  for (let at = 16; at < 32; at++) line.scored(idOf(at), 1)
  line.seal()
  // A record of an earlier build: the fold takes it, and the batch before the last has no outcome.
  first.status = 'sealed'
  assert.equal(failed(line.state, batch, 'x', 1), null)
  assert.equal(failed(line.state, 'no such batch', 'x', 1), null)
})

test('a load_weights that is refused while its result is awaited ends with a rollback', () => {
  const { line } = sealedLine()
  line.publish()
  for (let at = 16; at < 32; at++) line.scored(idOf(at), 1)
  assert.equal(line.seal()?.number, 2)
  const batch = updateLine(line.state.updates, 'policy').last
  const details = { status: 403, kind: 'load_weights', request: 'the result of load_weights' }
  const error = new InstarError('trainer_denied', 'answered the result of load_weights with 403', details)
  assert.equal(failedWithParent(line.state, batch, error, 1), null)
  const { tip } = line.state.weights.lines.get('policy')!.chain
  const moved = { from: 1, to: 0, who: 'w', why: '', request: 'r', freeze: false, at: 3 } as const
  line.read({ type: 'HeadMoved', prev: tip, policy: 'policy', ...moved })
  assert.match(failedWithParent(line.state, batch, error, 1)?.reason ?? '', /the result of load_weights with 403/)
})
