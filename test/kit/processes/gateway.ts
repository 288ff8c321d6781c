/** A gateway in its own process, to be killed: `gateway.ts LOG_FOLDER`; prints its URL. */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { startRig } from '../gateway.ts'

const log = await openEmbeddedLog({ folder: process.argv[2]!, schemas: schemaTexts() })
const rig = await startRig({
  log,
  script: (request) => ({
    text: `Seed ${request.sampling.seed} says one two three four five.`,
    before: (i) =>
      i % 4 === 0
        ? new Promise((resolve) => {
            setTimeout(resolve, 1)
          })
        : undefined,
  }),
})
process.stdout.write(`${rig.url}\n`)
