import type { Share } from './port.ts'

/** Of a log that only one process writes: everything is its own. */
export const wholeShare = (): Share => {
  let left = false
  return {
    mine: () => !left,
    async leave() {
      left = true
    },
  }
}
