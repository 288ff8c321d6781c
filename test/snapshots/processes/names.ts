/**
 * Folds the log of a gateway into its snapshot and its names, until it is killed or has read everything: `names.ts LOG
 * SNAPSHOTS`. Prints `saved` after each snapshot.
 */
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { openLevelRows } from '../../../services/gateway/src/session/level-rows.ts'
import { openSnapshot } from '../../../services/gateway/src/session/snapshot.ts'
import { startTail } from '../../../services/gateway/src/session/tail.ts'
import { POLICY } from '../../kit/histories.ts'

const [folder, place] = process.argv.slice(2) as [string, string]
const log = await openEmbeddedLog({ folder, readOnly: true })
const snapshot = openSnapshot(
  openSnapshots(place, { records: 25, ms: Infinity, cacheWeight: 20 }),
  POLICY,
  { sessions: 5, turns: 20 },
  { limits: { ms: 1e12, bytes: 1e9 }, open: (path) => openLevelRows(path, () => undefined) },
)
const tail = await startTail({
  log,
  name: POLICY,
  snapshot: {
    ...snapshot,
    after: (logged) => snapshot.after(logged)?.then(() => void process.stdout.write('saved\n')),
  },
  ignored: new Map(),
  onWeights: () => undefined,
  onBroken: (error) => {
    throw error
  },
})
await tail.caughtUp()
process.stdout.write('through\n')
