/** How far the update that is being computed is. */

/** `share`: the part that is done, 0…1. `remainingMs` null: nothing is done yet. */
export type UpdateProgress = { number: number; share: number; remainingMs: number | null }

/** The time left is that of the part that is done, scaled: an estimate. */
export const progressOf = (number: number, share: number, elapsedMs: number): UpdateProgress => ({
  number,
  share,
  remainingMs: share > 0 ? Math.round((elapsedMs * (1 - share)) / share) : null,
})

/** As people read it: `update 7: 62 %, 40 s left`. */
export const progressText = ({ number, share, remainingMs }: UpdateProgress): string =>
  `update ${number}: ${Math.floor(share * 100)} %${remainingMs === null ? '' : `, ${Math.ceil(remainingMs / 1000)} s left`}`
