import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, type TurnCaptured, type TurnScored } from '@instar/events'
import { openMemoryLog, type EventLog, type SubscribeOptions, type Subscription } from '@instar/log'
import { startRig } from '../../../../test/kit/gateway.ts'
import { records, scored as score, sealed, turn } from '../../../../test/kit/projected-history.ts'
import { createPendingTurnsReader } from './pending-turns.ts'

const scored = (turn: string): TurnScored => ({
  type: 'TurnScored',
  reward: 1,
  judge: 'feedback',
  hint: null,
  hintJudge: null,
  turn: `${'0'.repeat(20)}.${turn}`,
  session: 's',
  policy: 'policy',
  version: 0,
  subject: 's',
  verdicts: [],
  cause: 'c',
  rank: null,
  at: 1,
})

test('scored turns are remembered up to the limit; the oldest beyond it are forgotten', async (t) => {
  const log = openMemoryLog()
  const reader = createPendingTurnsReader(log, 'policy', 60_000, 3)
  t.after(() => reader.stop())
  const add = (turn: string) => log.append([encodeEvent(scored(turn))])
  for (const turn of ['a', 'b', 'c']) await add(turn)
  assert.equal((await reader.read()).waiting, 3)
  await add('c')
  assert.equal((await reader.read()).waiting, 3)
  await add('d')
  assert.equal((await reader.read()).waiting, 3)
})

type Scored = { of: TurnCaptured; score: TurnScored }

test('turns of batches do not wait, whichever of score and batch is read first; a batch that does not count changes nothing', async (t) => {
  const log = openMemoryLog()
  const reader = createPendingTurnsReader(log, 'policy', 60_000)
  t.after(() => reader.stop())
  const turns = ['a', 'b', 'c'].map((name) => turn({ session: `s${name}`, name, says: name }))
  const [a, b, c] = turns as [TurnCaptured, TurnCaptured, TurnCaptured]
  const [ofA, ofB, ofC] = [a, b, c].map((of) => ({ of, score: score(of, 1) })) as [Scored, Scored, Scored]
  const parent = { version: 0, adapter: null, state: null }
  const events = [ofA.score, ofC.score, sealed('', 1, parent, [ofA, ofB]), ofB.score, sealed('', 1, parent, [ofC])]
  await log.append(records(events))
  const found = await reader.read()
  assert.deepEqual([found.waiting, found.batch, found.spent('sa'), found.spent('sc')], [1, 2, true, false])
})

test('after an error of the follower the next read follows the log again, and counts each turn once', async (t) => {
  const log = openMemoryLog()
  let failing = false
  const failingLog: EventLog = Object.assign(Object.create(log) as EventLog, {
    subscribe: (options: SubscribeOptions) =>
      log.subscribe({
        ...options,
        handle(records) {
          if (failing) throw new Error('damaged')
          return options.handle(records)
        },
      }),
  })
  const reader = createPendingTurnsReader(failingLog, 'policy', 60_000)
  t.after(() => reader.stop())
  await log.append([encodeEvent(scored('a'))])
  assert.equal((await reader.read()).waiting, 1)
  failing = true
  await log.append([encodeEvent(scored('b'))])
  await assert.rejects(reader.read(), /damaged/)
  failing = false
  assert.equal((await reader.read()).waiting, 2)
})

/** A log whose end is never reached by the reader of pending turns. */
const behind = (log: EventLog): EventLog =>
  new Proxy(log, {
    get(target, name) {
      if (name === 'subscribe')
        return async (options: SubscribeOptions): Promise<Subscription> => {
          const subscription = await target.subscribe(options)
          return {
            commit: (positions) => subscription.commit(positions),
            take: (partition, from) => subscription.take(partition, from),
            release: (partition) => subscription.release(partition),
            caughtUp: () =>
              options.topics.includes('scores') ? new Promise<void>(() => undefined) : subscription.caughtUp(),
            stop: () => subscription.stop(),
            done: subscription.done,
          }
        }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })

test('where the end of the log is not reached in time, the state of the batch is an error, and the next read tries again', async (t) => {
  const rig = await startRig({ log: behind(openMemoryLog()), settings: { tailWaitMs: 20 } })
  t.after(() => rig.stop())
  for (let time = 0; time < 2; time += 1) {
    const response = await rig.fetch('/get_current_batch_rollout_pool_information')
    const { error } = (await response.json()) as { error: { code: string } }
    assert.deepEqual([response.status, error.code], [503, 'log_unavailable'])
  }
})
