/** Verifies a log without computing; prints the result and the memory used. */
import { InstarError } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { verify } from '../../../services/trainer/src/shell/verify.ts'
import type { Model } from '@instar/engine/port'

const log = await openEmbeddedLog({ folder: process.argv[2]!, readOnly: true })
const report = await verify({ log, learner: null, model: {} as Model }, 'policy', null).then(
  ({ ok, batches, first }) => ({
    ok,
    first,
    batches: batches.length,
    held: batches.filter((batch) => batch.ok).length,
    peak: process.resourceUsage().maxRSS * 1024,
  }),
  (error: unknown) => {
    if (!(error instanceof InstarError)) throw error
    return { error: { code: error.code, message: error.message } }
  },
)
await log.close()
console.log(JSON.stringify(report))
