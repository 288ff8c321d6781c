/**
 * One run of scorer, trainer and publisher of this build on an embedded log: some conversations, until all work is
 * done.
 */
import { encodeEvent, schemaTexts, updateLine, weightLine } from '@instar/events'
import { announceUpgrade, openEmbeddedLog } from '@instar/log'
import type { Model } from '@instar/engine/port'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig, type Judge } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { SCRIPTED_MODEL, ScriptedLearner } from '../../kit/scripted-learner.ts'
import { captured, type Said } from '../../kit/scored-history.ts'

const [folder = '', from = '0'] = process.argv.slice(2)
const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
await announceUpgrade(log, 'up', Date.now(), new AbortController().signal)
const model: Model = { ...SCRIPTED_MODEL, promptIds: () => [1] }
const judge: Judge = {
  id: 'scripted',
  needsNextState: true,
  judge: ({ answer }) => Promise.resolve({ value: Number(answer.slice(1)) % 2 === 0 ? 1 : -1, note: '', hint: null }),
}
const onFatal = (error: Error): void => {
  throw error
}
const ports = { log, learner: new ScriptedLearner(), model, now: Date.now, onFatal }
const scorer = createScorer({ log, now: Date.now, onFatal, judges: [judge] }, scorerConfig.parse({ idleMs: 3_600_000 }))
const trainer = createTrainer(ports, trainerConfig.parse({ batchSize: 4, batchMax: 4 }))
const publisher = createPublisher(
  { ...ports, evaluator: ports.learner, probes: NO_PROBES },
  publisherConfig.parse({ samples: 1 }),
)
await Promise.all([scorer, trainer, publisher].map((service) => service.start()))
// Turns of the served version: versions that are too old are not trained on.
const version = weightLine(publisher.state.weights, 'policy').last
for (let n = Number(from); n < Number(from) + 8; n += 1) {
  const [session, said] = [`s${n}`, [{ role: 'user', content: 'hi' }] as Said[]]
  const then: Said[] = [...said, { role: 'assistant', content: session }, { role: 'user', content: 'thanks' }]
  const facts = { session, version, at: Date.now() }
  const turns = [
    captured({ ...facts, messages: said, answer: session, name: 't1' }),
    captured({ ...facts, messages: then, answer: 'B', name: 't2' }),
  ]
  await log.append(turns.map((event) => encodeEvent(event)))
}
while (!(await scorer.settled()) || !(await trainer.settled())) await new Promise((resolve) => setTimeout(resolve, 10))
await Promise.all([scorer, trainer, publisher].map((service) => service.stop()))
await log.close()
process.stdout.write(
  JSON.stringify({
    batches: updateLine(trainer.state.updates, 'policy').count,
    versions: weightLine(trainer.state.weights, 'policy').last,
  }),
)
