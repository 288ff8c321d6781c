/** The common beginning of several prompts, a system message for the most part, whose keys and values are computed once. */
import type { KvCache } from './runtime/cache.ts'
import type { Runtime } from './runtime/runtime.ts'

/** Tokens, and prompts, below which a pass of its own costs more than it saves. */
const SHORTEST = 16
const FEWEST = 4

/** `members`: indices of prompts, ascending. `ids`: what they have in common, less than each of them. */
export type PrefixGroup = { ids: readonly number[]; members: number[] }

/** Prompts with a common beginning; those without one are one group, with no ids, the last. */
export function prefixGroups(prompts: readonly (readonly number[])[]): PrefixGroup[] {
  const groups: PrefixGroup[] = []
  const others: number[] = []
  for (const members of Map.groupBy(prompts.keys(), (i) => prompts[i]?.slice(0, SHORTEST).join()).values()) {
    const ids = members.length < FEWEST ? [] : commonPrefix(members.map((i) => prompts[i] ?? []))
    if (ids.length < SHORTEST) others.push(...members)
    else groups.push({ ids, members })
  }
  return others.length === 0 ? groups : [...groups, { ids: [], members: others.toSorted((a, b) => a - b) }]
}

function commonPrefix(prompts: readonly (readonly number[])[]): readonly number[] {
  const [first = []] = prompts
  const most = Math.min(...prompts.map(({ length }) => length)) - 1
  let length = 0
  while (length < most && prompts.every((prompt) => prompt[length] === first[length])) length += 1
  return first.slice(0, length)
}

/** One row with the keys and values of `ids`, under the adapter in `slot`. Null for an empty prefix. */
export async function prefilled(
  runtime: Runtime,
  ids: readonly number[],
  slot: number | null,
): Promise<KvCache | null> {
  if (ids.length === 0) return null
  const cache = runtime.createCache(1)
  await runtime.decodeStep({ ids: Int32Array.from(ids), T: ids.length, cache, rowSlots: [slot] })
  return cache
}

/** `rows` rows that begin with `prefix`; null: empty ones. */
export const rowsAfter = (runtime: Runtime, prefix: KvCache | null, rows: number): KvCache =>
  prefix ? prefix.copy(new Array<number>(rows).fill(0)) : runtime.createCache(rows)
