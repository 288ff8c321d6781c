/** Verifies a log without computing, and says what came of it and what memory it took. */
import { openEmbeddedLog } from '@instar/log'
import { verify } from '@instar/trainer/shell/verify'
import type { Model } from '@instar/engine/port'

const log = await openEmbeddedLog({ folder: process.argv[2]!, readOnly: true })
const { ok, batches, first } = await verify({ log, learner: null, model: {} as Model }, 'policy', null)
await log.close()
console.log(
  JSON.stringify({
    ok,
    first,
    batches: batches.length,
    held: batches.filter((batch) => batch.ok).length,
    peak: process.resourceUsage().maxRSS * 1024,
  }),
)
