import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Run } from './runs.ts'
import { WaitingRuns } from './waiting-runs.ts'

const run = (partition: number): Run => ({ topic: 'blobs', partition, items: [] })
const turns = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

describe('what a producer cannot send now', () => {
  it('waits for the reads that were begun before it, and for no later one', async () => {
    const waiting = new WaitingRuns()
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    waiting.fence([run(0)], first.promise)
    const one = run(0)
    assert.deepEqual([waiting.behind(one), waiting.behind(run(1))], [true, false])
    waiting.fence([run(0)], second.promise)
    const two = run(0)
    assert.equal(waiting.behind(two), true)
    assert.deepEqual(waiting.takeDue(), [])
    first.resolve()
    await waiting.due()
    assert.deepEqual(waiting.takeDue(), [one], 'reads that follow each other without end hold nothing up')
    assert.deepEqual(waiting.takeDue(), [])
    second.reject(new Error('a read that failed'))
    await waiting.due()
    assert.deepEqual([waiting.takeDue(), waiting.empty], [[two], true])
    await turns()
    assert.equal(waiting.behind(run(0)), false)
  })

  it('keeps the order of a partition: what came back, the rest of its batch, then what was appended after it', async () => {
    const waiting = new WaitingRuns()
    const [head, rest, later, last] = [run(3), run(3), run(3), run(3)]
    assert.equal(waiting.follows(head), false)
    assert.deepEqual([waiting.away([head]), waiting.away([run(4)])], [true, true], 'each partition is told of')
    assert.equal(waiting.behind(later), true)
    assert.equal(waiting.follows(rest), true)
    assert.equal(waiting.behind(last), true)
    assert.deepEqual(waiting.takeDue(), [], 'it is asked again after a while')
    await waiting.due()
    assert.equal(waiting.takeDue()[0], head)
    assert.equal(waiting.away([head]), false, 'it is told once')
    await waiting.due()
    const sent: Run[] = []
    while (!waiting.empty) sent.push(...waiting.takeDue().filter(({ partition }) => partition === 3))
    assert.deepEqual(sent, [head, rest, later, last])
    waiting.reached(head)
    assert.equal(waiting.away([head]), true, 'a partition that answered in between is told of again')
  })
})
