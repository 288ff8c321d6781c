/** Which file a snapshot has, beside those of other builds, and whether its state is of this version and log. */
import { InstarError } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { EventLog } from '../port.ts'
import { removeSnapshot, type FoldFile } from './file.ts'
import { migrate } from './migrate.ts'
import { newFile, openFirst } from './open-first.ts'
import { OtherBuilds } from './other-builds.ts'
import { otherLog, type PartitionPosition } from './other-log.ts'
import type { Positions } from './positions.ts'
import type { SnapshotSettings } from './settings.ts'
import type { FileRef } from './tables.ts'
import { migrationsFrom, versionText, type StateVersion } from './version.ts'

const ANOTHER = 'another build wrote it'

export class StateFiles {
  readonly #settings: SnapshotSettings
  readonly #name: string
  readonly #version: StateVersion
  readonly #fileRef: FileRef
  /** Paths of files that builds with another state wrote, at the opening. */
  #others: string[] = []
  #kept: OtherBuilds | null = null
  /** Why the file that was found could not be read, and was replaced by an empty one. */
  #unreadable = ''

  constructor(settings: SnapshotSettings, name: string, version: StateVersion, fileRef: FileRef) {
    this.#settings = settings
    this.#name = name
    this.#version = version
    this.#fileRef = fileRef
  }

  async open(): Promise<FoldFile | null> {
    const { file, others, problem } = await openFirst(this.#settings, this.#name, this.#version)
    this.#fileRef.file = file
    this.#others = [...others]
    this.#unreadable = problem
    return file
  }

  /** Replaces the file by an empty one, or by `initial`. */
  async replace(initial?: string): Promise<void> {
    const { file } = this.#fileRef
    await file?.close()
    if (file) removeSnapshot(file.path)
    this.#fileRef.file = await newFile(this.#settings, this.#name, this.#version, this.#others, initial)
  }

  /**
   * Whether the file has the state of another version, which could not be migrated: then a new file replaces it, and it stays
   * beside this one.
   */
  async replacedIfOther(file: FoldFile): Promise<boolean> {
    const written = versionIn(file)
    if (written === null || written === versionText(this.#version)) return false
    this.#others.push(file.path)
    await file.close()
    this.#fileRef.file = await newFile(this.#settings, this.#name, this.#version, this.#others)
    return true
  }

  get hasOthers(): boolean {
    return this.#others.length > 0
  }

  /** Why an empty file is used: '', that it could not be read, or that those with a state are of other builds. */
  whyEmpty(): string {
    return this.#unreadable || (this.hasOthers ? ANOTHER : '')
  }

  /** Why the file is not used, '' without one, and the time of the checkpoint in its place; null: the log is read from its start. */
  says(problem: string, checkpoint: string | null): void {
    const { logLine } = this.#settings
    const line = `${this.#name}: the snapshot is not used (${problem})`
    if (problem !== '' && this.#fileRef.file)
      logLine(checkpoint === null ? `${line}; the log is read from its start` : line)
    if (checkpoint !== null) logLine(`${this.#name}: starts from the checkpoint of ${checkpoint}`)
  }

  /** Keeps the time since when other builds' files are not used, in the one that is used, and removes those whose time is over. */
  async keepOthers(): Promise<void> {
    const { file } = this.#fileRef
    const { now = Date.now, logLine, file: inMemory } = this.#settings
    if (!file || inMemory) return
    this.#kept = new OtherBuilds(file, this.#others, { now, logLine, name: this.#name })
    await this.removeUnused(file)
  }

  async removeUnused(file: FoldFile): Promise<void> {
    await this.#kept?.removeUnused(file)
  }

  /** Of files that builds with another state wrote. */
  otherBuilds(): { count: number; bytes: number } {
    return { count: this.#kept?.size ?? 0, bytes: this.#kept?.bytes() ?? 0 }
  }

  /**
   * The reason why the file is no snapshot of this log by this version; null if it is, '' if it is empty. Sets its positions.
   * `topics`: as in `otherLog`.
   */
  async mismatch(
    file: FoldFile,
    log: EventLog,
    positions: Positions,
    topics: readonly Topic[],
  ): Promise<string | null> {
    try {
      const version = file.meta('version')
      if (version === undefined) return ''
      const migrations = migrationsFrom(version, this.#version)
      if (!migrations) return ANOTHER
      readPositions(file, positions)
      const other = await otherLog(log, positions, topics, file.meta('partitions'))
      if (other !== null) return other
      if (migrations.length > 0) {
        const now = versionText(this.#version)
        migrate(file, version, now, migrations)
        readPositions(file, positions)
        this.#settings.logLine(`${this.#name}: the snapshot was migrated from ${version} to ${now}`)
      }
      return null
    } catch (error) {
      if (error instanceof InstarError && error.code !== 'snapshot_damaged') throw error
      return (error as Error).message
    }
  }
}

const readPositions = (file: FoldFile, positions: Positions): void => {
  positions.clear()
  const reached = JSON.parse(file.meta('reached') ?? '') as [Topic, [number, PartitionPosition][] | null][]
  for (const [topic, partitions] of reached) if (partitions) positions.set(topic, new Map(partitions))
}

/** Null for a file without one, or that cannot be read. */
const versionIn = (file: FoldFile): string | null => {
  try {
    return file.meta('version') ?? null
  } catch {
    return null
  }
}
