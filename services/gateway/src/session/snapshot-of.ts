/** The snapshot of a gateway with its settings, and the names of answers beside it. */
import type { SnapshotStore } from '@instar/log'
import type { GatewayConfig } from '../config.ts'
import { openLevelRows, removeLevelRows } from './level-rows.ts'
import { openSnapshot, type GatewaySnapshot } from './snapshot.ts'

const DAY_MS = 86_400_000

export const snapshotOf = (
  store: SnapshotStore | undefined,
  config: GatewayConfig,
  now: () => number,
): GatewaySnapshot => {
  const { policy, sessions, turns, recognitionDays, recognitionBytes } = config
  const logLine = store?.logLine ?? (() => undefined)
  return openSnapshot(
    store,
    policy,
    { sessions, turns },
    {
      limits: { ms: recognitionDays * DAY_MS, bytes: recognitionBytes },
      now,
      open: (path) => openLevelRows(path, logLine),
      remove: (path) => removeLevelRows(path, logLine),
      logLine,
    },
  )
}
