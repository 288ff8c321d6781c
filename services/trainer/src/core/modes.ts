/** What a comparison of an update with the log proves, by the mode in which it was made. */
import type { Fingerprint } from '@instar/engine/port'

/**
 * `requests`: of a training server; `server`: they were also computed there again. `digests`: nothing was computed.
 * `tolerance`: computed by another engine than the recorded one. `no_update`: there is nothing to compare.
 */
export type Mode = 'recompute' | 'requests' | 'server' | 'digests' | 'tolerance' | 'no_update'

export const PROVES: Readonly<Record<Mode, string>> = {
  recompute: 'the adapter follows from the log bit for bit: its weights were computed again',
  requests:
    'every request to the training server follows from the log byte for byte; what the server computed was not computed again, its adapter is the recorded bytes',
  server:
    'every request to the training server follows from the log byte for byte, and the server, given them again from the parent’s saved state, computes the recorded adapter within 0.001 of its change',
  digests: 'the stored adapter and state are the recorded bytes; nothing was computed again',
  tolerance: 'how far the adapters are apart; another engine than the recorded one is not compared bit for bit',
  no_update: 'nothing: the batch has no update, or its records differ',
}

/** The modes among `modes` with what they prove, each once, in the order of PROVES. */
export const provenBy = (modes: readonly Mode[]): Partial<Record<Mode, string>> =>
  Object.fromEntries(Object.entries(PROVES).filter(([mode]) => modes.some((one) => one === mode)))

/** True if the engine has the recorded fingerprint; only then are results bit-equal. */
export const isSameEngine = (recorded: Fingerprint, current: Fingerprint): boolean =>
  (Object.keys(current) as (keyof Fingerprint)[]).every((key) => recorded[key] === current[key])
