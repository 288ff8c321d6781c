import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { startRig, turnsOf } from '../../../test/kit/gateway.ts'
import { Demo, DEMO } from './protocol.ts'
import { USERS } from './users.ts'

const SESSIONS = 9

test('a demo asks one thing at a time, in a fixed order, and the next only when all before is learned', async () => {
  /** Requests that are being answered or learned from. */
  let open = 0
  let overlaps = 0
  const asked: string[] = []
  const pending: number[] = []
  const rig = await startRig({
    script: (_, prompt) => {
      const at = USERS.findIndex(({ system }) => prompt.includes(system))
      asked.push(USERS[at]!.name)
      open += 1
      if (open > 1) overlaps += 1
      // Lengths by person, so that requests beside each other would end in another order.
      return { text: 'word '.repeat(9 - 4 * at), before: () => setImmediate() }
    },
  })
  try {
    const demo = new Demo(
      {
        client: rig.client,
        settled: async () => {
          pending.push((await turnsOf(rig.log)).length)
          await setImmediate()
          open -= 1
        },
      },
      { ...DEMO, seed: 5, sessions: SESSIONS },
    )
    await demo.run()
    deepEqual([demo.failed, demo.sessions, overlaps], [0, SESSIONS, 0])
    // After the n-th request n turns are on the log, and are waited for.
    deepEqual(
      pending,
      Array.from({ length: demo.requests }, (_, i) => i + 1),
    )
    equal(pending.length, rig.engine.requests.length)
    deepEqual(
      asked.filter((name, i) => name !== asked[i - 1]),
      Array.from({ length: SESSIONS }, (_, i) => USERS[i % USERS.length]!.name),
    )
  } finally {
    await rig.stop()
  }
})
