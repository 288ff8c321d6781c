import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, type Event } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { serviceLog } from './service-log.ts'

const CLOSED: Event = { type: 'SessionClosed', session: 's', open: [], why: 'idle', at: 1 }
const FROZEN: Event = {
  type: 'LearningFrozen',
  prev: '',
  policy: 'policy',
  on: true,
  who: 'somebody',
  why: 'a test',
  request: 'r',
  at: 1,
}

test('a service can append only to the topics that the flow table lists for it', async () => {
  const log = openMemoryLog()
  const scorer = serviceLog(log, 'scorer')
  await scorer.append([encodeEvent(CLOSED)])
  await assert.rejects(scorer.append([encodeEvent(CLOSED), encodeEvent(FROZEN)]), {
    code: 'internal',
    message: /scorer is not among the writers of weights/,
  })
  assert.deepEqual(
    [await log.ends(['turns']), await log.ends(['weights'])].map((ends) =>
      Object.values(Object.values(ends)[0]!).reduce((a, b) => a + b, 0),
    ),
    [1, 0],
    'no record of a refused batch is written',
  )
})

test('a service can read only the topics that the flow table lists for it', async () => {
  const projections = serviceLog(openMemoryLog(), 'projections')
  const refused = { code: 'internal', message: /projections is not among the readers of blobs/ }
  const subscribe = { group: 'g', from: 'start', handle: () => undefined } as const
  assert.throws(() => projections.read('blobs'), refused)
  await assert.rejects(projections.at({ topic: 'blobs', partition: 0, offset: 0 }), refused)
  await assert.rejects(projections.subscribe({ ...subscribe, topics: ['turns', 'blobs'] }), refused)
  assert.equal(await projections.at({ topic: 'turns', partition: 0, offset: 0 }), undefined)
  const subscription = await projections.subscribe({ ...subscribe, topics: ['turns', 'upgrades'] })
  await subscription.stop()
})

test('all other properties are those of the log', () => {
  const log = openMemoryLog({ partitions: { turns: 3 } })
  assert.deepEqual([serviceLog(log, 'gateway').partitions('turns'), serviceLog(log, 'gateway').sole], [3, true])
})
