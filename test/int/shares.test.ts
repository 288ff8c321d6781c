/** Work divided among processes: after every change each partition has one owner. */
import { setupKafka } from '@instar/log/kafka/index'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { membersOf } from '../kit/stack/members.ts'
import { addresses } from '../kit/stack.ts'

const PARTITIONS = 8
const SESSION = 2000

test(
  'three processes share eight partitions through join, leave, kill -9 and a stop longer than a session',
  { timeout: 120_000 },
  async (t) => {
    const { brokers } = addresses()
    const prefix = `m${process.pid}.`
    await setupKafka({ brokers, prefix })
    const members = membersOf('member', { brokers, prefix, session: SESSION }, PARTITIONS)
    const say = (what: string, ms: number): void => t.diagnostic(`${what}: ${ms} ms (session ${SESSION} ms)`)
    try {
      const a = members.start()
      say('the first has everything', await members.settled([a]))
      const b = members.start()
      const c = members.start()
      say('three have 3, 3 and 2', await members.settled([a, b, c]))

      const before = a.share()
      const left = await Promise.all([b.end(), members.settled([a, c])])
      say('one left', left[1])
      assert.ok(
        before.every((partition) => a.share().includes(partition)),
        'nobody gives up what he need not',
      )

      const d = members.start()
      await members.settled([a, c, d])
      await c.kill()
      const killed = await members.settled([a, d])
      say('kill -9', killed)
      assert.ok(killed < 5 * SESSION, `${killed} ms`)

      const e = members.start()
      await members.settled([a, d, e])
      const held = d.share()
      d.signal('SIGSTOP')
      say('SIGSTOP, until the others have its share', await members.settled([a, e]))
      d.signal('SIGCONT')
      assert.deepEqual(d.share(), held)
      say('SIGCONT, until it has a share again', await members.settled([a, d, e]))

      await Promise.all([d.end(), e.end()])
      await members.settled([a])
      await a.end()
    } finally {
      await members.killAll()
    }
  },
)
