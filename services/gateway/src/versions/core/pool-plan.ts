/** Decides which versions the pool loads, serves and unloads. Pure; ../pool.ts acts. */
import { InstarError, type WeightLine } from '@instar/events'

export type Served = { version: number; adapter: string | null }

export const BASE: Served = { version: 0, adapter: null }

/** Null: unknown version. Before the line is started, the base is version 0. */
export const servedVersion = (line: WeightLine, version: number): Served | null => {
  const found = line.versions.get(version)
  if (found) return { version, adapter: found.adapter }
  return version === 0 && !line.started ? BASE : null
}

/**
 * Versions that can replace the head while its adapter is missing: its ancestors, the nearest first. A parent has a lower
 * number; a record that says otherwise ends the line.
 */
export function* ancestors(line: WeightLine): Generator<number> {
  for (let at = line.head; ;) {
    const parent = line.versions.get(at)?.parent ?? null
    if (parent === null || parent >= at) return
    at = parent
    yield at
  }
}

export type Held = { adapter: string; inUse: number; usedAt: number }

/** Adapters to unload so that `keep` remain: the least recently used of those neither in use nor wanted. */
export const surplus = (held: readonly Held[], keep: number, wanted: ReadonlySet<string>): string[] =>
  held
    .filter(({ inUse, adapter }) => inUse === 0 && !wanted.has(adapter))
    .sort((a, b) => a.usedAt - b.usedAt)
    .slice(0, Math.max(0, held.length - keep))
    .map(({ adapter }) => adapter)

/**
 * Adapters besides the head's that requests may use, or have begun to load: each is in memory, here and at the engine, also
 * where its client has left. An answer to any version may be asked for.
 */
export const MOST_HELD = 16

type Adapters = ReadonlyMap<string, unknown>

/** Throws `overloaded` if the adapter would be one too many. `head`: that of the served version. */
export const checkHeld = (adapter: string, head: string | null, pinned: Adapters, loading: Adapters): void => {
  if (adapter === head || pinned.has(adapter) || loading.has(adapter)) return
  const held = new Set([...pinned.keys(), ...loading.keys()])
  if (head !== null) held.delete(head)
  if (held.size >= MOST_HELD)
    throw new InstarError('overloaded', `${held.size} earlier versions are in use, as many as may be at a time.`, {
      retryAfterMs: 1000,
    })
}
