import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ProducerBatch } from './producer-batch.ts'
import { WaitingBatches } from './waiting-batches.ts'

const batch = (partition: number): ProducerBatch => ({ topic: 'blobs', partition, records: [] })
const turns = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

describe('batches that cannot be sent', () => {
  it('wait for the reads that were started before them, not for later ones', async () => {
    const waiting = new WaitingBatches()
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    waiting.fence([batch(0)], first.promise)
    const one = batch(0)
    assert.deepEqual([waiting.holdIfBlocked(one), waiting.holdIfBlocked(batch(1))], [true, false])
    waiting.fence([batch(0)], second.promise)
    const two = batch(0)
    assert.equal(waiting.holdIfBlocked(two), true)
    assert.deepEqual(waiting.takeDue(), [])
    first.resolve()
    await waiting.untilDue()
    assert.deepEqual(waiting.takeDue(), [one], 'a later read does not block the batch')
    assert.deepEqual(waiting.takeDue(), [])
    second.reject(new Error('the read failed'))
    await waiting.untilDue()
    assert.deepEqual([waiting.takeDue(), waiting.empty], [[two], true])
    await turns()
    assert.equal(waiting.holdIfBlocked(batch(0)), false)
  })

  it('keep the order of their partition: the returned batch, the rest of it, then later batches', async () => {
    const waiting = new WaitingBatches()
    const [head, rest, later, last] = [batch(3), batch(3), batch(3), batch(3)]
    assert.equal(waiting.holdBehindReturned(head), false)
    assert.deepEqual(
      [waiting.returnBlocked([head]), waiting.returnBlocked([batch(4)])],
      [true, true],
      'each partition without a leader is reported',
    )
    assert.equal(waiting.holdIfBlocked(later), true)
    assert.equal(waiting.holdBehindReturned(rest), true)
    assert.equal(waiting.holdIfBlocked(last), true)
    assert.deepEqual(waiting.takeDue(), [], 'the batch is sent again after the retry delay')
    await waiting.untilDue()
    assert.equal(waiting.takeDue()[0], head)
    assert.equal(waiting.returnBlocked([head]), false, 'the partition is reported once')
    await waiting.untilDue()
    const sent: ProducerBatch[] = []
    while (!waiting.empty) sent.push(...waiting.takeDue().filter(({ partition }) => partition === 3))
    assert.deepEqual(sent, [head, rest, later, last])
    waiting.answered(head)
    assert.equal(waiting.returnBlocked([head]), true, 'after a response the partition is reported again')
  })
})
