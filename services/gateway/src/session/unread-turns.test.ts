/** A gateway that reads turns only when a request waits for them: equal answers, and a side request after the first one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog, type EventLog } from '@instar/log'
import { startRig, turnsOf } from '../../../../test/kit/gateway.ts'

/** The log, of which turns are read at the start and by `caughtUp` alone. */
const lateLog = (): EventLog => {
  const log = openMemoryLog()
  const subscribe = log.subscribe.bind(log)
  log.subscribe = async (options) => {
    if (!options.topics.includes('turns')) return subscribe(options)
    let reading = Promise.withResolvers<void>()
    const handle: typeof options.handle = async (records) => {
      await reading.promise
      await options.handle(records)
    }
    const subscription = await subscribe({ ...options, handle })
    const caughtUp = subscription.caughtUp.bind(subscription)
    subscription.caughtUp = async () => {
      reading.resolve()
      await caughtUp()
      reading = Promise.withResolvers()
    }
    const stop = subscription.stop.bind(subscription)
    subscription.stop = () => {
      reading.resolve()
      return stop()
    }
    return subscription
  }
  return log
}

test('the answer of an earlier turn is not taken for that of a turn which was not read yet', async (t) => {
  const log = lateLog()
  const rig = await startRig({ log, script: () => 'Done.' })
  t.after(() => rig.stop())
  const messages: { role: string; content: string }[] = []
  for (const content of ['First.', 'Second.', 'Third.', 'Fourth.']) {
    messages.push({ role: 'user', content })
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages },
      headers: { 'x-instar-session-id': 'desk' },
    })
    assert.equal(response.status, 200)
    messages.push({ role: 'assistant', content: 'Done.' })
  }
  const turns = await turnsOf(log)
  assert.deepEqual(
    turns.map(({ prompt }) => prompt.from),
    [null, ...turns.slice(0, -1).map(({ turn }) => turn)],
  )
})

test('a labelled request without tools is a side request, though the first one of its session was not read yet', async (t) => {
  const log = lateLog()
  const rig = await startRig({ log, script: () => 'Done.' })
  t.after(() => rig.stop())
  const tools = [{ type: 'function', function: { name: 'mend', parameters: { type: 'object', properties: {} } } }]
  for (const json of [
    { model: 'policy', tools, messages: [{ role: 'user', content: 'Mend it.' }] },
    { model: 'policy', messages: [{ role: 'user', content: 'Name this in three words: Mend it.' }] },
  ]) {
    const response = await rig.fetch('/v1/chat/completions', { json, headers: { 'x-instar-session-id': 'desk' } })
    assert.equal(response.status, 200)
  }
  assert.deepEqual(
    (await turnsOf(log)).map(({ kind, trainable }) => [kind, trainable]),
    [
      ['main', true],
      ['side', false],
    ],
  )
})
