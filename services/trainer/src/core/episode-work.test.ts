/** What a decision looks at, counted: it does not grow with the episodes that run. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EpisodeLine, sessionOf } from '../../../../test/kit/episode-line.ts'
import { OPTIONS } from '../../../../test/kit/trainer-line.ts'
import { countWaiting, nextReadyAt } from './batch.ts'
import { decide } from './decide.ts'

const SETTINGS = { ...OPTIONS, taskEpisodes: 4, settings: { rules: 2 } }

/** Counts sessions, turns and scores that are looked up, and queues and their keys that are gone through. */
class CountedLine extends EpisodeLine {
  visits = 0
  constructor() {
    super()
    const { turns, sessions } = this.state.turns
    for (const table of [turns, sessions, this.state.scores.turns]) this.#count(table as Map<string, never>)
    for (const queues of [this.state.pending, this.state.episodes]) {
      const { set } = queues
      const keys = queues.keys.bind(queues)
      queues.keys = () => {
        this.visits += queues.size
        return keys()
      }
      queues.set = (name, queue) => {
        const each = queue[Symbol.iterator].bind(queue)
        queue[Symbol.iterator] = () => {
          this.visits += queue.size
          return each()
        }
        return set.call(queues, name, queue)
      }
    }
  }
  #count(table: Map<string, never>): void {
    const get = table.get.bind(table)
    table.get = (key) => {
      this.visits += 1
      return get(key)
    }
  }
  /** What the decision after a record looks at. */
  decisionAfter(record: () => void): number {
    record()
    this.visits = 0
    assert.equal(decide(this.state, SETTINGS, 9).do, 'wait')
    countWaiting(this.state, SETTINGS, 9)
    nextReadyAt(this.state, SETTINGS, 9)
    return this.visits
  }
}

const scored = Array.from({ length: 20 }, (_, i) => (i % 2 ? 1 : -1))

for (const task of ['', 't', 'each its own'])
  test(`a decision after a record looks at one episode, with 8 or 512 that run (task '${task}')`, () => {
    const works = [8, 512].map((open) => {
      const line = new CountedLine()
      for (let i = 0; i < open; i += 1) line.turns(`e${i}`, scored, { task: task.startsWith('each') ? `t${i}` : task })
      line.decisionAfter(() => undefined)
      return {
        again: line.decisionAfter(() => undefined),
        turn: line.decisionAfter(() => line.turns('e3', [1], { task: '' }).length),
        begins: line.decisionAfter(() => line.turns('new', [1], { task, at: 2 }).length),
        other: line.decisionAfter(() => line.scored(`${sessionOf('other')}.1`, 0)),
      }
    })
    assert.deepEqual(works[1], works[0])
    assert.equal(works[1]!.again, 0)
    assert.ok(works[1]!.turn <= 30, `${works[1]!.turn}`)
  })

test('a batch that is sealed looks at its own episode and at those that changed, with 8 or 512 that run', () => {
  const works = [8, 512].map((open) => {
    const line = new CountedLine()
    for (let i = 0; i < open; i += 1) line.turns(`e${i}`, scored, { task: '' })
    for (const name of ['a', 'b', 'c']) {
      line.turns(name, scored, { task: '' })
      line.end(name, 1)
      line.visits = 0
      assert.equal(line.seal({ ...SETTINGS, batchMax: 16 })?.items.length, 20)
      line.publish()
    }
    return line.visits
  })
  assert.equal(works[1], works[0])
})
