/** Threads of the learning engine. The number is part of the fingerprint. */
import { availableParallelism } from 'node:os'

/** A model below this many parameters learns in seconds on one thread. */
const SMALL_MODEL = 10_000_000
const MOST = 2

/** One for a small model; else two, so that learning uses both cores while serving pauses for it (share/ledger.ts). */
export const defaultThreads = (parameters: number, cores = availableParallelism()): number =>
  parameters < SMALL_MODEL ? 1 : Math.min(MOST, cores)
