/** A log without the bytes of the head's adapter or optimizer: the trainer waits, and uses up no turn. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeReadable, InstarError } from '@instar/events'
import type { EventLog, MemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import type { TrainItem } from '@instar/engine/port'
import { exampleModel, openLine, startTrainer, untilWaits } from '../../../../test/kit/remote-line.ts'
import { ScriptedLearner } from '../../../../test/kit/scripted-learner.ts'

const model = exampleModel([3, 1, 4])
const TEN = { batchSize: 10, batchMax: 10, subjectShare: 1, keyShare: 1 }
const turns = (count: number): TrainItem[] =>
  Array.from({ length: count }, (_, at) => ({
    prompt: [1, 2, 3],
    completion: [4, 5],
    temperature: 1,
    advantage: at % 2 ? 1 : -1,
    behaviourLogprobs: [-1, -1],
    hintPrompt: null,
  })) as unknown as TrainItem[]

/** A log whose reads leave out the blob with this sha256. */
const without = (log: MemoryLog, lost: () => string | null): EventLog =>
  new Proxy(log as EventLog, {
    get(own, name) {
      const value: unknown = Reflect.get(own, name, own)
      if (typeof value !== 'function') return value
      if (name !== 'read') return value.bind(own) as unknown
      return async function* (...given: Parameters<EventLog['read']>) {
        for await (const records of own.read(...given))
          yield records.filter((record) => {
            const event = record.topic === 'blobs' ? decodeReadable(record)?.event : null
            return event?.type !== 'BlobChunk' || event.sha256 !== lost()
          })
      }
    },
  })

for (const part of ['adapter', 'state'] as const)
  test(`the ${part} of the head is lost: 60 turns stay unused until it is restored, and a rollback ends the wait`, async () => {
    const line = await openLine()
    let lost: string | null = null
    const metrics = createMetrics()
    const log = without(line.log, () => lost)
    await line.turns(turns(10))
    const started = await startTrainer(log, { learner: new ScriptedLearner(), metrics }, model, TEN)
    await untilWaits(started, 'verdict')
    lost = (await line.events('UpdateComputed'))[0]?.[part] ?? ''
    await line.verdict(true)
    await line.turns(turns(60), 10, 1)
    await untilWaits(started, 'parent_lost', 'turns')
    assert.match(await metrics.text(), /instar_trainer_waits\{for="parent_lost"\} 1/)
    assert.equal((await line.events('BatchSealed')).length, 2)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    // Restored.
    lost = null
    await untilWaits(started, 'verdict')
    assert.equal((await line.events('UpdateComputed')).length, 2)
    // Lost again; the next batch would be computed from version 1 as well.
    lost = (await line.events('UpdateComputed'))[0]?.[part] ?? ''
    await line.verdict(false)
    await untilWaits(started, 'parent_lost')
    await line.turns(turns(10), 100, 0)
    await line.rollback(0)
    await untilWaits(started, 'verdict')
    const failures = await line.events('UpdateFailed')
    assert.equal(failures.length, 1)
    assert.match(failures[0]?.reason ?? '', /^parent_lost: Version 1, .* does not contain the blob/)
    assert.equal((await line.events('BatchSealed')).at(-1)?.parent.version, 0)
    assert.deepEqual(started.fatal, [])
    await started.trainer.stop()
  })

test('a blob of one batch’s own that is lost fails that batch alone', async () => {
  const line = await openLine()
  const learner = new ScriptedLearner()
  learner.faults.push(new InstarError('missing_blob', 'the log does not contain the body of a turn'))
  await line.turns(turns(20))
  const started = await startTrainer(line.log, { learner }, model, TEN)
  await untilWaits(started, 'verdict')
  assert.deepEqual(
    (await line.events('UpdateFailed')).map(({ number, reason }) => [number, reason.split(':')[0]]),
    [[1, 'missing_blob']],
  )
  await started.trainer.stop()
})
