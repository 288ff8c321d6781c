/** What `instar doctor` and `instar versions` read of a log; prints the result and the memory used. */
import { dirname } from 'node:path'
import { openEmbeddedLog } from '@instar/log'
import { readRecords } from '../../../cli/src/doctor/records.ts'
import { withVersionHistory } from '../../../cli/src/versions.ts'
import type { Config } from '../../../cli/src/config.ts'

/** `folder`: of the log, which is the folder `log` of a data folder. */
const [folder = '', what] = process.argv.slice(2)
const read = async (): Promise<unknown> => {
  if (what === 'versions')
    return withVersionHistory(
      { data: dirname(folder), log: 'embedded', archive: null } as Config,
      ({ batches, batchOf }) => ({
        batches: batches.length,
        last: batchOf(batches.at(-1)!)?.sealed.items.length,
      }),
    )
  const log = await openEmbeddedLog({ folder, readOnly: true })
  const found = await readRecords(log)
  await log.close()
  return found
}
const found = await read()
console.log(JSON.stringify({ found, peak: process.resourceUsage().maxRSS * 1024 }))
