/** Sorted lists without equal items. */

/** Changes that are made one by one; with more of them a list is built anew. */
const FEW_CHANGES = 8

/** The place of `item` in a sorted list: where it is, or where it belongs. */
export const placeIn = <T>(list: readonly T[], item: T, compare: (a: T, b: T) => number): number => {
  let [from, to] = [0, list.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (compare(list[middle] as T, item) < 0) from = middle + 1
    else to = middle
  }
  return from
}

/**
 * The list without `gone` and with `come`, which may be the same array. `gone`: items of the list. Many changes cost one
 * pass through the list, whatever their number.
 */
export const withChanges = <T>(
  list: T[],
  gone: readonly T[],
  come: readonly T[],
  compare: (a: T, b: T) => number,
): T[] => {
  if (gone.length + come.length > FEW_CHANGES) {
    const without = new Set(gone)
    // Two sorted runs, which the sort merges.
    return [...list.filter((item) => !without.has(item)), ...come.toSorted(compare)].toSorted(compare)
  }
  for (const item of gone) list.splice(placeIn(list, item, compare), 1)
  for (const item of come) list.splice(placeIn(list, item, compare), 0, item)
  return list
}
