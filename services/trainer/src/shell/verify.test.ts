/** What `instar verify` names where a computation of a batch has other items than the recorded one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecord } from '@instar/events'
import { openMemoryLog, type Append, type EventLog } from '@instar/log'
import { exampleModel, openLine, startTrainer, untilWaits } from '../../../../test/kit/remote-line.ts'
import { captured, turnNamed } from '../../../../test/kit/scored-history.ts'
import { ScriptedLearner } from '../../../../test/kit/scripted-learner.ts'
import { verify } from './verify.ts'

const model = exampleModel([3, 1, 4])
const EARLIER = 2
const SCORED = 10

/** A log with the same records but those of these turns, of which half the bytes are left. */
const damaged = async (log: EventLog, turns: readonly string[]): Promise<EventLog> => {
  const copy = openMemoryLog()
  for (const topic of ['turns', 'scores', 'updates', 'weights', 'blobs'] as const)
    for await (const records of log.read(topic))
      await copy.append(
        records.map((record): Append => {
          const { key, schema, payload, timestamp } = record
          const { event } = decodeRecord(record)
          const isHarmed = event.type === 'TurnCaptured' && turns.includes(event.turn)
          return {
            topic,
            key,
            schema,
            payload: isHarmed ? payload.subarray(0, payload.length >> 1) : payload,
            timestamp,
          }
        }),
      )
  return copy
}

test('where turns before those of a batch are damaged after it was trained on, the difference names the items without them', async () => {
  const line = await openLine()
  const learner = new ScriptedLearner()
  // The prompt of a session's scored turn begins with that of a turn before it, which is in no batch.
  const sessions = Array.from({ length: SCORED }, (_, at) => `s${at}`)
  const before = (session: string): string => turnNamed(session, 'before')
  for (const session of sessions) {
    const said = { session, messages: [{ role: 'user' as const, content: 'q' }], at: EARLIER }
    await line.append(captured({ ...said, answer: 'a', name: 'before', trainable: false }))
    const scored = captured({ ...said, answer: 'b', name: 'scored', at: EARLIER + 1 })
    const prompt = { from: before(session), prefix: 3, ids: [7], length: 4 }
    await line.append({ ...scored, prompt })
    const { turn, policy, version, subject } = scored
    const score = { turn, session, policy, version, subject, verdicts: [], cause: 'c', rank: null, at: EARLIER + 2 }
    await line.append({ type: 'TurnScored', ...score, reward: 1, judge: 'j', hint: null, hintJudge: null })
  }
  const share = { batchSize: SCORED, batchMax: SCORED, subjectShare: 1, keyShare: 1 }
  const started = await startTrainer(line.log, { learner }, model, share)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  const check = (log: EventLog) => verify({ log, learner, model }, 'policy', null)
  assert.deepEqual((await check(line.log)).first, null)

  const one = await check(await damaged(line.log, [before('s3')]))
  assert.equal(one.batches[0]?.mode, 'recompute')
  assert.equal(one.first?.type, 'UpdateComputed')
  assert.match(
    one.first.what,
    new RegExp(
      `^recomputed adapter \\w{64}; dropped_unknown_turn is 1, recorded 0 ` +
        `\\(turn ${turnNamed('s3', 'scored')}: turn ${before('s3')} is not on the log\\)$`,
    ),
  )
  const four = await check(await damaged(line.log, sessions.slice(0, 4).map(before)))
  assert.match(four.first?.what ?? '', /dropped_unknown_turn is 4, recorded 0 \((turn s.*){3}; 1 more\)$/)
})
