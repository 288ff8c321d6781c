/** Writes a checkpoint of the trainer until it is killed: `checkpoint.ts LOG FILES`. Prints a line at each progress. */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog, writeCheckpoint } from '@instar/log'
import { trainerFold } from '@instar/trainer'

const [place, folder] = process.argv.slice(2) as [string, string]
const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
await writeCheckpoint(log, trainerFold, {
  policy: 'policy',
  folder,
  now: () => Date.now(),
  observer: { onProgress: () => void process.stdout.write('.\n') },
  signal: new AbortController().signal,
})
await log.close()
