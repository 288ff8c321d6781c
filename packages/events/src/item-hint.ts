import type { BatchItem, Written } from './records.ts'

/**
 * The hint that an item of a batch is trained with: that of a turn whose own score is negative, whatever its episode's
 * outcome.
 */
export const hintOf = ({ reward, turnScore, outcome, hint }: BatchItem): Written | null => {
  const own = (outcome ?? null) === null ? reward : (turnScore ?? null)
  return own !== null && own < 0 ? hint : null
}
