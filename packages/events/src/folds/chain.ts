/** `updates` and `weights` are chains: a record counts iff its `prev` is the id of the last one that counted. */
import { InstarError } from '../errors.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { Keys } from './table.ts'

/** `tip` '' before the first record. `read` holds every id of this key, counted or not. */
export type Chain = { tip: string; read: Keys }
export type MemoryChain = Chain & { read: Set<string> }

export const emptyChain = (): MemoryChain => ({ tip: '', read: new Set() })

/**
 * Advances the chain if the record counts. A `prev` that was read but is not the tip is a stale writer.
 * A `prev` that was never read means that this reader misses a record: throws `log_gap`.
 */
export const link = (
  chain: Chain,
  record: { id: string; topic: string; key: string; event: { prev: string } },
): FoldOutcome => {
  const { prev } = record.event
  if (prev !== '' && !chain.read.has(prev)) {
    throw new InstarError(
      'log_gap',
      `${record.topic} ${record.key}: record ${record.id.slice(0, 12)} follows ${prev.slice(0, 12)}, which was never read`,
      { topic: record.topic, key: record.key, record: record.id, prev },
    )
  }
  chain.read.add(record.id)
  if (prev !== chain.tip) return ignored('stale')
  chain.tip = record.id
  return COUNTED
}
