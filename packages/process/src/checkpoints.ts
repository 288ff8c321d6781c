/**
 * Checkpoints by a running service: folds the log itself, from the newest checkpoint on, when so many turns or so much time has
 * passed since. The service's own state is not used, since its file may be wrong in the way that a checkpoint is to find.
 */
import { InstarError } from '@instar/events/errors'
import {
  checkpointsOn,
  countedTopic,
  isDue,
  stateName,
  turnsBehind,
  writeCheckpoint,
  type CheckpointReport,
  type EventLog,
  type StoredFold,
} from '@instar/log'
import type { StateCheckpointed } from '@instar/events'
import type { CHECKPOINTED } from './metrics/labels.ts'
import type { Metrics } from './metrics/metrics.ts'
import type { Settings } from './settings.ts'

type Ports = {
  log: EventLog
  metrics: Metrics
  /** Milliseconds since the epoch. */
  now: () => number
  logLine: (line: string) => void
}

export type CheckpointingOptions = {
  /** Those that this process can fold. */
  folds: readonly StoredFold[]
  policy: string
  settings: Pick<Settings, 'checkpoints' | 'checkpointing'>
  /** As the records have it. */
  who: string
  /** Whether this process, of those that share the work, writes them. */
  owns: () => boolean
  /** Time between two looks at the log, in milliseconds. */
  pollMs?: number
}

export type Checkpointing = {
  /** Looks at the log once, and resolves when what was due is written or has failed. */
  look(): Promise<void>
  /** Ends a checkpoint in work; resolves when nothing runs. */
  stop(): Promise<void>
}

type State = (typeof CHECKPOINTED)[number]
/** Of one fold. `failures`: attempts in a row that wrote nothing; `notBefore`: when the next one may begin. */
type Progress = { newest: StateCheckpointed | null | undefined; failures: number; notBefore: number }

const POLL_MS = 60_000
/** After an attempt in vain, doubled by each further one. */
const RETRY_MS = 10 * 60_000
const LONGEST_RETRY_MS = 24 * 3_600_000
/** The next attempt is so many times as long after the last one as that took: its cost grows with the state, not with what is new. */
const PAUSE = 20

const retryMs = ({ failures }: Progress): number =>
  failures === 0 ? 0 : Math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ** (failures - 1))

/** One checkpoint at a time, of the states of the settings; nothing unless they say when. A failure is logged and counted, and never ends the service. */
export const startCheckpoints = (
  { log, metrics, now, logLine }: Ports,
  { folds: known, policy, settings, who, owns, pollMs = POLL_MS }: CheckpointingOptions,
): Checkpointing => {
  const { checkpoints: folder, checkpointing } = settings
  const { states, kept, bytes: maxBytes, ...every } = checkpointing
  if (every.turns === null && every.ms === null) return { look: async () => undefined, stop: async () => undefined }
  const folds = known.filter(({ service }) => states.some((state) => state === service))
  const stopping = new AbortController()
  const { signal } = stopping
  const progress = new Map<StoredFold, Progress>(
    folds.map((fold) => [fold, { newest: undefined, failures: 0, notBefore: -Infinity }]),
  )
  let running: Promise<void> | null = null

  const newestOf = async (fold: StoredFold): Promise<StateCheckpointed | null> =>
    (await checkpointsOn(log, stateName(fold, policy))).at(-1)?.event ?? null

  const isDueNow = async (fold: StoredFold, newest: StateCheckpointed | null): Promise<boolean> => {
    const topic = countedTopic(fold)
    const turns = turnsBehind(log, newest?.positions ?? [], await log.ends([topic]), topic)
    return isDue(every, { turns, ms: newest ? now() - newest.at : Infinity })
  }

  const inVain = (fold: StoredFold, outcome: 'too_large' | 'failed', why: string): void => {
    const of = progress.get(fold)!
    of.failures += 1
    metrics.count('instar_checkpoints_total', { state: fold.service as State, outcome })
    logLine(`no checkpoint of ${stateName(fold, policy)}: ${why}`)
  }

  const handle = (fold: StoredFold, report: CheckpointReport | null): void => {
    const of = progress.get(fold)!
    if (report?.tooLarge) {
      inVain(fold, 'too_large', `its file has ${report.bytes} bytes, and ${maxBytes} are allowed`)
      return
    }
    of.newest = report ? { ...report, type: 'StateCheckpointed', who } : null
    const outcome = report?.written ? 'written' : 'unchanged'
    // The records behind the last one may all be unreadable: they are folded again later, and not at every look.
    of.failures = report?.written ? 0 : of.failures + 1
    metrics.count('instar_checkpoints_total', { state: fold.service as State, outcome })
    if (report?.written) logLine(`checkpoint of ${report.name} written: ${report.rows} rows, ${report.bytes} bytes`)
  }

  const writeDue = async (fold: StoredFold): Promise<void> => {
    const of = progress.get(fold)!
    if (now() < of.notBefore) return
    let startedAt: number | null = null
    try {
      if (of.newest === undefined) of.newest = await newestOf(fold)
      if (!(await isDueNow(fold, of.newest))) return
      // Another process, or the command, may have written one meanwhile.
      of.newest = await newestOf(fold)
      if (!(await isDueNow(fold, of.newest))) return
      startedAt = now()
      const observer = { onProgress: () => undefined, signal }
      handle(fold, await writeCheckpoint(log, fold, { policy, folder, kept, maxBytes, who, now, observer, signal }))
    } catch (error) {
      if (signal.aborted) return
      startedAt ??= now()
      inVain(fold, 'failed', error instanceof InstarError ? `${error.code}: ${error.message}` : String(error))
    } finally {
      if (startedAt !== null) of.notBefore = now() + Math.max(PAUSE * (now() - startedAt), retryMs(of))
    }
  }

  const look = (): Promise<void> =>
    (running ??= (async () => {
      for (const fold of folds) if (!signal.aborted && owns()) await writeDue(fold)
    })().finally(() => {
      running = null
    }))

  const newest = (): [State, StateCheckpointed][] =>
    [...progress].flatMap(([{ service }, of]) => (of.newest ? [[service as State, of.newest]] : []))
  metrics.read('instar_checkpoint_bytes', () => newest().map(([state, { bytes }]) => [{ state }, bytes]))
  metrics.read('instar_checkpoint_age_seconds', () =>
    newest().map(([state, { at }]) => [{ state }, Math.max(0, now() - at) / 1000]),
  )
  const timer = setInterval(() => void look(), pollMs)
  timer.unref()
  void look()
  return {
    look,
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}
