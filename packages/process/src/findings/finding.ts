/** Findings of the checks of `instar doctor` and of the dashboard's page Health. */
import { ERRORS, InstarError } from '@instar/events/errors'

/**
 * `wrong`: it does not work, or will soon stop working. `note`: it works, but needs attention. `unsure`: the check
 * could not be made. `todo`: what to do; null where nothing is to be done.
 */
export type Finding = { level: 'ok' | 'note' | 'unsure' | 'wrong'; found: string; todo: string | null }

export const ok = (found: string): Finding => ({ level: 'ok', found, todo: null })
export const note = (found: string, todo: string): Finding => ({ level: 'note', found, todo })
export const unsure = (found: string, todo: string | null = null): Finding => ({ level: 'unsure', found, todo })
export const wrong = (found: string, todo: string): Finding => ({ level: 'wrong', found, todo })

/** The finding of an error that a check threw. `todo` default: that of the error code. */
export const errorFinding = (error: unknown, todo?: string): Finding => {
  const code = error instanceof InstarError ? error.code : 'internal'
  return wrong(`${code}: ${error instanceof Error ? error.message : String(error)}`, todo ?? ERRORS[code].todo)
}

/** The length of an interval, without its sign. */
export const durationText = (ms: number): string => {
  const seconds = Math.abs(ms) / 1000
  return seconds < 10
    ? `${seconds.toFixed(1)} s`
    : seconds < 120
      ? `${Math.round(seconds)} s`
      : seconds < 7200
        ? `${Math.round(seconds / 60)} min`
        : seconds < 172_800
          ? `${Math.round(seconds / 3600)} h`
          : `${Math.round(seconds / 86_400)} days`
}

/** `1 broker`, `3 brokers`. */
export const countText = (count: number, singular: string, plural = `${singular}s`): string =>
  `${count} ${count === 1 ? singular : plural}`
