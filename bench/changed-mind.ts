/**
 * Series of updates at the limit of the KL to the base, in which the wish changes half-way. Tiny model, real trainer and
 * publisher, 16 sessions an update; the result does not depend on the speed of the machine.
 */
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { NO_PROBES } from '@instar/publisher'
import { changedMind } from '../test/series/changed-mind.ts'
import { machine } from './machine.ts'

/** `atLimit`: updates that were drawn towards the base. `long…`: shares of long answers. */
export type Row = {
  klBaseMax: number
  seed: number
  updates: number
  atLimit: number
  rejected: number
  longBase: number
  longHalf: number
  longEnd: number
}
export type Report = { name: string; machine: string; rows: Row[] }

/** 126 updates of 16 sessions: about 2,000. */
const LONG = { updates: 126, klBaseMax: 0.2 }
const SHORT = { updates: 10, klBaseMax: 0.03 }

export const bench = async ({
  quick = false,
  logLine = () => undefined,
}: { quick?: boolean; logLine?: (line: string) => void } = {}): Promise<Report> => {
  const { model: folder } = readSettings({}, '/')
  const learner = await startLearning({ model: folder })
  try {
    const ports = { learner, model: await openModel(folder), probes: NO_PROBES }
    const rows: Row[] = []
    for (const seed of quick ? [2] : [2, 3]) {
      const settings = { ...(quick ? SHORT : LONG), seed }
      const { updates, atLimit, rejected, long } = await changedMind(ports, { ...settings, logLine })
      rows.push({
        klBaseMax: settings.klBaseMax,
        seed,
        updates,
        atLimit,
        rejected: rejected.length,
        longBase: long.base,
        longHalf: long.half,
        longEnd: long.end,
      })
    }
    return { name: 'changed-mind', machine: machine(), rows }
  } finally {
    await learner.close()
  }
}
