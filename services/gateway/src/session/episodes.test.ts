/** Sessions that are episodes: the task of their turns, and their end with a reward. */
import { encodeRecord, type SessionClosed } from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { eventsOf, startRig, turnsOf, USER, type Rig } from '../../../../test/kit/gateway.ts'

const say = (rig: Rig, session: string, headers: Record<string, string> = {}): Promise<unknown> =>
  rig.client.chat.completions.create(
    { model: 'policy', messages: [USER('What is 2+2?')] },
    { headers: { 'x-session-id': session, ...headers } },
  )
const close = async (rig: Rig, session: string, json?: unknown): Promise<{ status: number; code: unknown }> => {
  const response = await rig.fetch(`/v1/sessions/${session}/close`, { json, method: 'POST' })
  const body = (await response.json()) as { error?: { code: string; param: string } }
  return { status: response.status, code: body.error && [body.error.code, body.error.param] }
}
const closings = async (rig: Rig): Promise<unknown[]> =>
  (await eventsOf(rig.log))
    .filter((event): event is SessionClosed => event.type === 'SessionClosed')
    .map(({ open, outcome, task, discarded }) => [open.length, outcome, task, discarded])

test('x-instar-task-id is recorded with each turn, and the session ends with its reward, once', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  await say(rig, 'a', { 'x-instar-task-id': 'sort' })
  await say(rig, 'b')
  deepEqual(
    (await turnsOf(rig.log)).map(({ task }) => task),
    ['sort', null],
  )
  const ok = { status: 200, code: undefined }
  deepEqual(await close(rig, 'a', { reward: false }), ok)
  deepEqual(await close(rig, 'a', { reward: -1 }), ok, 'the same again changes nothing')
  deepEqual(await close(rig, 'a', { reward: 1 }), { status: 400, code: ['bad_request', 'reward'] })
  deepEqual(await close(rig, 'b'), ok)
  deepEqual(await close(rig, 'b', { reward: 0.5, task_id: 'count' }), ok, 'also after it was closed')
  deepEqual(await closings(rig), [
    [1, -1, null, false],
    [1, null, null, false],
    [0, 0.5, 'count', false],
  ])
})

test('an aborted episode is discarded; what is no reward and a name that is too long are errors', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  await say(rig, 'a', { 'x-instar-task-id': 'x'.repeat(200) })
  for (const [body, param] of [
    [{ reward: 2 }, 'reward'],
    [{ reward: 'good' }, 'reward'],
    [{ reward: 1, discarded: true }, 'reward'],
    [{ reward: 1, task_id: 'x'.repeat(201) }, 'task_id'],
  ] as const)
    deepEqual(await close(rig, 'a', body), { status: 400, code: ['bad_request', param] })
  const refused = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')] },
    headers: { 'x-instar-task-id': 'x'.repeat(201) },
  })
  equal(refused.status, 400)
  deepEqual(await close(rig, 'a', { discarded: true }), { status: 200, code: undefined })
  deepEqual(await closings(rig), [[1, null, null, true]])
})

test('while older readers of the log do not know outcomes, a session cannot end with one, and closes without', async (t) => {
  const memory = openMemoryLog()
  const log: EventLog = new Proxy(memory, {
    get(target, name) {
      const value: unknown = name === 'sole' ? false : Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const rig = await startRig({ log })
  t.after(() => rig.stop())
  await say(rig, 'a', { 'x-instar-task-id': 'sort' })
  deepEqual((await close(rig, 'a', { reward: 1 })).status, 409)
  const versions = { TurnCaptured: 3, SessionClosed: 3, BatchSealed: 2 }
  await log.append([encodeRecord({ type: 'ReadersUpgraded', versions, who: 'setup', at: 1 })])
  deepEqual((await close(rig, 'a', { reward: 1 })).status, 200)
  deepEqual(await closings(rig), [[1, 1, null, false]])
  deepEqual(
    (await turnsOf(log)).map(({ task }) => task),
    [null],
    'it was written before the announcement',
  )
})
