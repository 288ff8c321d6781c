/**
 * Replays a log with batches of another size on a learner that computes nothing; prints the result and the memory used.
 */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import type { Model } from '@instar/engine/port'
import { replay } from '@instar/trainer'
import { ScriptedLearner } from '../../kit/scripted-learner.ts'

const [folder, batchSize, until] = process.argv.slice(2) as [string, string, string]
const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
const { equal, batches, versions } = await replay(
  {
    log,
    learner: new ScriptedLearner(),
    model: { name: 'm', sha256: 'b', contextLength: 1000 } as Model,
    now: () => Date.now(),
    signal: new AbortController().signal,
  },
  'policy',
  { branch: 'long', from: null, until: { time: Number(until) }, set: { batchSize }, judge: null },
)
await log.close()
console.log(JSON.stringify({ equal, batches, versions, peak: process.resourceUsage().maxRSS * 1024 }))
