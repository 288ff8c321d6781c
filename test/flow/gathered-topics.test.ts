/** Which topics each service may read late (`gather` of SubscribeOptions). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog, type SubscribeOptions } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { startRig } from '../kit/gateway.ts'
import { ScriptedLearner } from '../kit/scripted-learner.ts'
import { openModel } from '@instar/policy'

test('scorer and trainer read turns and scores late, the publisher scores, and none its chain', async () => {
  const model = await openModel('models/tiny')
  const log = openMemoryLog()
  const subscribe = log.subscribe.bind(log)
  let asked: SubscribeOptions['gather']
  log.subscribe = (options) => {
    asked = options.gather
    return subscribe(options)
  }
  const ports = { log, model, now: Date.now, onFatal: assert.ifError }
  const services = {
    trainer: createTrainer({ ...ports, learner: new ScriptedLearner() }, trainerConfig.parse({})),
    publisher: createPublisher(
      { ...ports, evaluator: new ScriptedLearner(), probes: NO_PROBES, promotionsOnly: true },
      publisherConfig.parse({}),
    ),
    scorer: createScorer(ports, scorerConfig.parse({})),
  }
  const late = { topics: ['turns', 'scores'], ms: 250 }
  for (const [name, expected] of [
    ['trainer', late],
    ['publisher', { topics: ['scores'], ms: 250 }],
    ['scorer', late],
  ] as const) {
    await services[name].start()
    assert.deepEqual(asked, expected, name)
    await services[name].stop()
  }
  await log.close()
})

test('a gateway reads turns late, with all that this subscription has, and its versions at once', async () => {
  const log = openMemoryLog()
  const subscribe = log.subscribe.bind(log)
  const asked = new Map<string, SubscribeOptions['gather']>()
  log.subscribe = (options) => {
    asked.set(options.topics.join(' '), options.gather)
    return subscribe(options)
  }
  const rig = await startRig({ log })
  assert.deepEqual(
    [...asked],
    [
      ['turns upgrades', { topics: ['turns', 'upgrades'], ms: 250 }],
      ['weights upgrades', undefined],
    ],
  )
  await rig.stop()
})
