/** Which versions the pool holds, serves and lets go. Pure; shell/pool.ts does it. */
import type { WeightLine } from '@instar/events'

export type Served = { version: number; adapter: string | null }

export const BASE: Served = { version: 0, adapter: null }

/** Null: no such version. Before the line is started the base is version 0. */
export const servedVersion = (line: WeightLine, version: number): Served | null => {
  const found = line.versions.get(version)
  if (found) return { version, adapter: found.adapter }
  return version === 0 && !line.started ? BASE : null
}

/** What may stand in for the head while its bytes are missing: its ancestors, the nearest first. */
export function* ancestors(line: WeightLine): Generator<number> {
  for (let at = line.versions.get(line.head)?.parent ?? null; at !== null; at = line.versions.get(at)?.parent ?? null)
    yield at
}

export type Held = { adapter: string; inUse: number; usedAt: number }

/** Adapters to unload: beyond `keep`, those used longest ago that no request is on and nobody is about to serve. */
export const surplus = (held: readonly Held[], keep: number, wanted: ReadonlySet<string>): string[] =>
  held
    .filter(({ inUse, adapter }) => inUse === 0 && !wanted.has(adapter))
    .sort((a, b) => a.usedAt - b.usedAt)
    .slice(0, Math.max(0, held.length - keep))
    .map(({ adapter }) => adapter)
