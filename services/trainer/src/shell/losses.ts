/**
 * How often in a row the computation of one batch has ended the learning engine, or the process: counted before it
 * begins, in a file, so that a batch which ends the process is counted, too.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

export type Losses = {
  /** Computations of the batch that have not ended otherwise. */
  of(batch: string): number
  /** Call before a computation. */
  begin(batch: string): void
  /** The computation has ended the engine: it stays counted. Call `spared` after any other end that leaves the batch. */
  spared(batch: string): void
  /** The batch has a record of its end. */
  settled(): void
}

const stored = z.object({ batch: z.string(), count: z.int().nonnegative() })
type Stored = z.infer<typeof stored>

const NONE: Stored = { batch: '', count: 0 }

/**
 * `folder` null: for this process alone; so, too, where the file cannot be read or written. One process computes the
 * batches of a policy at a time.
 */
export const openLosses = (folder: string | null, policy: string): Losses => {
  const file = folder === null ? null : path.join(folder, `trainer.${policy}.losses.json`)
  let state = file === null ? NONE : readState(file)
  const write = (next: Stored): void => {
    state = next
    if (file !== null) quietly(() => writeState(file, next))
  }
  const countOf = (batch: string): number => (state.batch === batch ? state.count : 0)
  return {
    of: countOf,
    begin: (batch) => write({ batch, count: countOf(batch) + 1 }),
    spared: (batch) => write({ batch, count: Math.max(0, countOf(batch) - 1) }),
    settled() {
      state = NONE
      if (file !== null) quietly(() => rmSync(file, { force: true }))
    },
  }
}

const readState = (file: string): Stored => {
  try {
    return stored.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    return NONE
  }
}

const writeState = (file: string, state: Stored): void => {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const handle = openSync(`${file}.new`, 'w', 0o600)
  try {
    writeSync(handle, JSON.stringify(state))
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  renameSync(`${file}.new`, file)
}

const quietly = (work: () => void): void => {
  try {
    work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
  }
}
