/** `instar archive cut`: deletes from the log what is in an archive, what checkpoints have folded, and what is old. */
import { schemaTexts } from '@instar/events'
import {
  cutLog,
  hasEmbeddedLog,
  openEmbeddedLog,
  placesText,
  usableCheckpoint,
  type Archive,
  type CutReport,
} from '@instar/log'
import { InstarError } from '@instar/events/errors'
import { logFolder, openKafka } from '@instar/process'
import { unscoredTurns } from '@instar/scorer'
import { neededTurns } from '@instar/trainer'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError, type Printing } from './command.ts'
import type { Config } from './config.ts'
import { createCopyProgress, durationText, sizeText } from './copy-progress.ts'
import { POLICY } from './log-access.ts'
import { CHECKPOINTED } from './stored-folds.ts'
import { minuteText, table } from './table.ts'

const DAY_MS = 86_400_000
/** What stays by default, and the least: sessions are recognised for 7 days by default. */
const KEEP_DAYS = 30
const LEAST_DAYS = 7

type CutInvocation = Printing & {
  config: Config
  values: {
    'keep-days'?: string | undefined
    'dry-run'?: boolean | undefined
    'delete-unreadable'?: boolean | undefined
  }
  print(value: unknown, text: () => string): void
}

/** Throws `UsageError`. */
const keepDaysOf = (text: string | undefined): number => {
  const days = text === undefined ? KEEP_DAYS : Number(text)
  if (Number.isInteger(days) && days >= LEAST_DAYS && days <= 36_500) return days
  throw new UsageError(`--keep-days ${text} is not a number of days from ${LEAST_DAYS} on`)
}

/** The log itself, without what is read from an archive. Throws `data_unreadable`, `data_in_use`. */
const openLive = (config: Config, dryRun: boolean) => {
  if (config.log !== 'embedded') return openKafka({ ...config, archive: null }, { name: 'instar' })
  const folder = logFolder(config)
  if (!hasEmbeddedLog(folder)) throw new InstarError('data_unreadable', `${folder} holds no log.`, { folder })
  return openEmbeddedLog({
    folder,
    partitions: config.partitions,
    ...(dryRun ? { readOnly: true } : { schemas: schemaTexts() }),
  })
}

/** `address`: of the archive. */
export const cut = async (invocation: CutInvocation, archive: Archive, address: string): Promise<void> => {
  const { config, values, print, raw, terminal, stop } = invocation
  const dryRun = values['dry-run'] === true
  const keepDays = keepDaysOf(values['keep-days'])
  const startedAt = performance.now()
  const log = await openLive(config, dryRun)
  const progress = createCopyProgress(raw.err, terminal)
  let report: CutReport
  const since = Date.now() - keepDays * DAY_MS
  let needed = 0
  let checkpoints: Awaited<ReturnType<typeof usableCheckpoint>>[] = []
  try {
    const observer = { onProgress: progress.show, signal: stop }
    const wanted = { policy: POLICY, folder: config.checkpoints, signal: stop }
    checkpoints = await Promise.all(CHECKPOINTED.map((fold) => usableCheckpoint(log, fold, wanted)))
    const folding = { policy: POLICY, checkpoints: config.checkpoints, observer }
    const unscored = await unscoredTurns(log, folding)
    const turns = await neededTurns(log, { ...folding, since, unscored })
    needed = turns.length
    report = await cutLog({
      log,
      archive,
      address,
      checkpoints: checkpoints.map((one, i) => ({ ...one, topics: CHECKPOINTED[i]!.topics })),
      since,
      needed: turns,
      deleteUnreadable: values['delete-unreadable'] === true,
      dryRun,
      now: () => Date.now(),
      observer,
      signal: stop,
    })
  } finally {
    progress.end()
    await log.close()
  }
  const { topics, unarchived, record, completed, comparison } = report
  const file = config.log === 'embedded' ? statSync(join(logFolder(config), 'log.db')).size : null
  const wallMs = Math.round(performance.now() - startedAt)
  const states = checkpoints.map(({ id, event: { name, at } }) => ({ name, record: id, at }))
  const result = {
    dryRun,
    keepDays,
    since,
    topics,
    unarchived,
    record,
    completed,
    needed,
    checkpoints: states,
    manifest: archive.digest,
    compared: comparison.records,
    file,
    wallMs,
  }
  print(result, () => textOf(result))
}

type Result = Pick<CutReport, 'topics' | 'unarchived' | 'record' | 'completed'> & {
  dryRun: boolean
  since: number
  needed: number
  compared: number
  file: number | null
  manifest: string
  wallMs: number
}

const textOf = ({
  dryRun,
  since,
  topics,
  unarchived,
  record,
  completed,
  needed,
  compared,
  file,
  manifest,
  wallMs,
}: Result): string => {
  const rows = table(
    [
      { name: 'topic', of: ([topic]) => topic },
      { name: dryRun ? 'records to delete' : 'records deleted', of: ([, { records }]) => records },
      { name: 'size', of: ([, { bytes }]) => sizeText(bytes) },
    ],
    Object.entries(topics),
  )
  const lost = unarchived.records === 0 ? '' : `of these ${unarchivedText(unarchived)}${dryRun ? NEEDS_FLAG : ''}\n`
  const kept = `kept: what was written since ${minuteText(since)} UTC, and from the oldest of ${needed} turns that are still to be scored or that batches may read on\n`
  const done = dryRun
    ? 'nothing was deleted'
    : record !== null
      ? `cut; record ${record.slice(0, 12)}`
      : completed
        ? 'an earlier cut was completed'
        : 'there is nothing to cut'
  const size =
    file === null || dryRun || (record === null && !completed)
      ? ''
      : `log.db keeps its ${sizeText(file)}: new records take the room that became free\n`
  return `${rows}${lost}${kept}${size}${done}; ${compared} records are as the archive has them, manifest ${manifest.slice(0, 12)}, ${durationText(wallMs)}\n`
}

const NEEDS_FLAG = '; only --delete-unreadable deletes them'
/** Positions on the console; `--json` has more. */
const SHOWN = 20

const unarchivedText = (unarchived: CutReport['unarchived']): string => {
  const verb = unarchived.records === 1 ? 'is' : 'are'
  return `${unarchived.records} cannot be read and ${verb} not in the archive: ${placesText(unarchived, SHOWN)}`
}
