/** What a look of `instar doctor` found. */
import { ERRORS, InstarError } from '@instar/events/errors'
import type { Config } from '../config.ts'

/**
 * `wrong`: it does not work, or will not for long. `note`: it works, and somebody should know. `unsure`: nothing is
 * known to be wrong, but it could not be looked at.
 */
export type Finding = { level: 'ok' | 'note' | 'unsure' | 'wrong'; found: string; todo: string | null }

export type Look = { name: string; of(config: Config): Promise<readonly Finding[]> }

export const fine = (found: string): Finding => ({ level: 'ok', found, todo: null })
export const note = (found: string, todo: string): Finding => ({ level: 'note', found, todo })
export const unsure = (found: string, todo: string | null = null): Finding => ({ level: 'unsure', found, todo })
export const wrong = (found: string, todo: string): Finding => ({ level: 'wrong', found, todo })

/** The fault that a look threw. */
export const faultOf = (error: unknown, todo?: string): Finding => {
  const code = error instanceof InstarError ? error.code : 'internal'
  return wrong(`${code}: ${error instanceof Error ? error.message : String(error)}`, todo ?? ERRORS[code].todo)
}

export const duration = (ms: number): string => {
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

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`
