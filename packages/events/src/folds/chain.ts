/** Chains (`updates`, `weights`): a record counts if its `prev` is the id of the last record that counted. */
import { InstarError } from '../errors.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { Keys } from './table.ts'

/** `tip`: id of the last record that followed the one before it; '' before the first. `read`: the ids of all records of this key. */
export type Chain = { tip: string; read: Keys }
export type MemoryChain = Chain & { read: Set<string> }

export const emptyChain = (): MemoryChain => ({ tip: '', read: new Set() })

/**
 * Advances the chain if the record counts. A `prev` that is not the tip but was read comes from a writer that had not
 * read the latest record: the record is ignored as `stale`. Throws `log_gap` for a `prev` that was not read, since the
 * reader then misses a record.
 */
export const link = (
  chain: Chain,
  record: { id: string; topic: string; key: string; event: { prev: string } },
): FoldOutcome => {
  const { prev } = record.event
  if (prev !== '' && !chain.read.has(prev)) {
    throw new InstarError(
      'log_gap',
      `${record.topic}, key ${record.key}: record ${record.id.slice(0, 12)} follows ${prev.slice(0, 12)}, which has not been read`,
      { topic: record.topic, key: record.key, record: record.id, prev },
    )
  }
  chain.read.add(record.id)
  if (prev !== chain.tip) return ignored('stale')
  chain.tip = record.id
  return COUNTED
}
