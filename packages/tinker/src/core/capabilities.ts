/** What follows from a server's capabilities. */
import type { Capabilities, Reduction } from '../port.ts'

/**
 * By what the advantages of a row are multiplied so that the gradient is the plain sum over all tokens. `targets`: of the
 * row; `rows` and `allTargets`: of the step. SkyRL's JAX backend counts each target of a row, prompt included.
 */
export const rowFactor = (reduction: Reduction, targets: number, rows: number, allTargets: number): number =>
  reduction === 'sum' ? 1 : reduction === 'token_mean' ? allTargets : targets * rows

/** As texts, for records and reports. */
export const capabilitiesMap = (capabilities: Capabilities): Record<string, string> => {
  const { wire, ...rest } = capabilities
  const entries = [
    ...Object.entries(rest),
    ...Object.entries(wire).map(([key, value]) => [`wire.${key}`, value] as const),
  ]
  return Object.fromEntries(
    entries
      .map(([key, value]) => [key, Array.isArray(value) ? value.join(' ') : String(value)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}
