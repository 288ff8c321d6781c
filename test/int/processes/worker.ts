/**
 * A scorer, trainer or publisher on Kafka with a scripted judge or learner: prints, as JSON, its share whenever it
 * changes and each piece of work at its start. Stops at the end of its input.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { schemaTexts } from '@instar/events'
import type { EventLog, PartitionAssignment } from '@instar/log'
import { openKafkaLog } from '@instar/log/kafka/index'
import type { Model } from '@instar/engine/port'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig, type Judge } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { range } from '../../kit/event-log/harness.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../../kit/scripted-learner.ts'

export type WorkerPlace = {
  role: 'scorer' | 'trainer' | 'publisher'
  brokers: string[]
  prefix: string
  session: number
  /** Milliseconds of one judgement or step. */
  takes: number
  /** It processes all partitions, as if it were alone. */
  heedless?: boolean
  idleMs?: number
}

const {
  role,
  brokers,
  prefix,
  session,
  takes,
  heedless = false,
  idleMs = 3_600_000,
} = JSON.parse(process.argv[2]!) as WorkerPlace
const say = (line: { share: number[] } | { did: string }): void =>
  void process.stdout.write(`${JSON.stringify(line)}\n`)
const schemas = schemaTexts()
const log: EventLog = await openKafkaLog({
  brokers,
  prefix,
  session,
  clientId: `${role}-${process.pid}`,
  schemas,
  registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
})
const join = log.joinGroup.bind(log)
log.joinGroup = async (group, topic, onChange) => {
  if (heedless) return { owns: () => true, leave: () => Promise.resolve() }
  const share: PartitionAssignment = await join(group, topic, () => {
    say({ share: range(log.partitions(topic)).filter((partition) => share.owns(partition)) })
    onChange()
  })
  return share
}

const judge: Judge = {
  id: 'scripted',
  needsNextState: true,
  async judge({ answer }, signal) {
    say({ did: answer })
    await delay(takes, undefined, { signal })
    return { value: 1, note: '', hint: null }
  },
}

class Learner extends ScriptedLearner {
  override async step(...given: Parameters<ScriptedLearner['step']>) {
    say({ did: 'step' })
    await delay(takes)
    return super.step(...given)
  }
  override async evaluate(...given: Parameters<ScriptedLearner['evaluate']>) {
    say({ did: 'evaluation' })
    await delay(takes)
    return super.evaluate(...given)
  }
}

const model: Model = { ...SCRIPTED_MODEL, promptIds: () => [1] }
const now = Date.now
const onFatal = (error: Error): void => {
  throw error
}
const learning = { log, learner: new Learner(), model, now, onFatal }
const service =
  role === 'scorer'
    ? createScorer({ log, now, onFatal, judges: [judge] }, scorerConfig.parse({ idleMs }))
    : role === 'trainer'
      ? createTrainer(learning, trainerConfig.parse({ batchSize: 2, batchMax: 2 }))
      : createPublisher(
          { ...learning, evaluator: learning.learner, probes: NO_PROBES },
          publisherConfig.parse({ samples: 1 }),
        )
await service.start()
process.stdin.resume()
await once(process.stdin, 'end')
await service.stop()
await log.close()
