/** Runs migrations of a stored state. */
import type { Topic } from '@instar/events/flow'
import type { FoldFile } from './file.ts'
import type { Migration } from './version.ts'

/** The state has no records of the topic any more: its positions go, and a later state that folds it reads it from its start. */
export const withoutTopic = (file: FoldFile, topic: Topic): void => {
  const reached = JSON.parse(file.meta('reached') ?? '[]') as [Topic, unknown][]
  file.setMeta('reached', JSON.stringify(reached.filter(([one]) => one !== topic)))
  const { [topic]: _, ...counts } = JSON.parse(file.meta('partitions') ?? '{}') as Partial<Record<Topic, number>>
  file.setMeta('partitions', JSON.stringify(counts))
}

/** The tables of `storedTurns`. */
export const clearTurns = (file: FoldFile): void => {
  for (const table of ['sessions', 'sessions turns']) file.clear(table)
}

/** All at once with the new version, so that a process that is killed leaves the old state or the new one. */
export const migrate = (file: FoldFile, from: string, to: string, migrations: readonly Migration[]): void => {
  file.begin()
  try {
    for (const one of migrations) one(file)
    file.setMeta('version', to)
    file.commit()
  } catch (cause) {
    file.rollback()
    throw new Error(`its state cannot be migrated from ${from} to ${to}: ${(cause as Error).message}`, { cause })
  }
}
