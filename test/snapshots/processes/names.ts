/**
 * Folds the log of a gateway into its snapshot and its names, until it is killed or has read everything: `names.ts LOG
 * SNAPSHOTS [COUNT [CHECKPOINTS]]`. Prints, where it may start from a checkpoint, `opens` before it opens them and `names` after each
 * write of names, `saved` after each
 * snapshot, then how many of the answers `Answer 0.` to COUNT it finds.
 */
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { openLevelRows } from '../../../services/gateway/src/session/level-rows.ts'
import { answerName } from '../../../services/gateway/src/session/core/held-names.ts'
import { nameFor } from '../../../services/gateway/src/session/core/names.ts'
import type { NameRows } from '../../../services/gateway/src/session/name-rows.ts'
import { openSnapshot } from '../../../services/gateway/src/session/snapshot.ts'
import { startTail } from '../../../services/gateway/src/session/tail.ts'
import { POLICY } from '../../kit/histories.ts'
import { turn } from '../../kit/projected-history.ts'

const [folder, place, count, checkpoints] = process.argv.slice(2) as [string, string, string?, string?]
const logLine = (line: string): void => void process.stdout.write(`${line}\n`)
const openRows = async (path: string): Promise<NameRows | null> => {
  const rows = await openLevelRows(path, logLine)
  if (!rows || !checkpoints) return rows
  return { ...rows, put: (...all) => rows.put(...all).then(() => logLine('names')) }
}
const log = await openEmbeddedLog({ folder, readOnly: true })
const snapshot = openSnapshot(
  openSnapshots(place, {
    records: 25,
    ms: Infinity,
    cacheWeight: 20,
    logLine,
    ...(checkpoints ? { checkpoints } : {}),
  }),
  POLICY,
  { sessions: 5, turns: 20 },
  { limits: { ms: 1e12, bytes: 1e9 }, now: Date.now, open: openRows, logLine },
)
if (checkpoints) logLine('opens')
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
if (count) {
  let found = 0
  for (let i = 0; i < Number(count); i += 1) {
    const { answer } = turn({ session: 's', name: 'n', says: `Answer ${i}.`, at: 0 })
    found += (await snapshot.names!.find([answerName(nameFor(null, answer.loose))])).length
  }
  await snapshot.names!.close()
  process.stdout.write(`found ${found}\n`)
}
process.stdout.write('through\n')
