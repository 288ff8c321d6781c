/** Inputs of an import. */
import type { Reading } from '@instar/gateway/imported'
import type { EventLog } from '@instar/log'
import type { ExistingRecords } from './existing.ts'

/** `share`: of the bytes read, or of the requests written, 0…1. `count`: lines read or turns added, with the unit. */
export type ImportProgress = { phase: 'reading' | 'writing'; share: number; count: string }

type ImportTokenizer = {
  decode: (ids: readonly number[]) => string
  vocabulary: number
  sha256: string
  sha256Named?(name: string): string
}

export type ImportPorts = {
  /** The destination; null for a dry run, which writes nothing. */
  log: EventLog | null
  /** Reads what the log holds of these sessions, and the versions of the policy. */
  existing: (sessions: ReadonlySet<string>) => Promise<ExistingRecords>
  /** Opens the tokenizer; called when a line holds token ids. Null: the model cannot be opened. */
  tokenizer: () => Promise<ImportTokenizer | null>
  /** Milliseconds since the epoch. */
  now: () => number
  onProgress: (progress: ImportProgress) => void
  signal: AbortSignal
}

export type ImportOptions = Pick<Reading, 'policy' | 'key' | 'ownVersions' | 'unsampled' | 'rewards'>
