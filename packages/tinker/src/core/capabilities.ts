/** What follows from a server's capabilities. */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { Capabilities, Reduction } from '../port.ts'

/**
 * By what the advantages of a row are multiplied so that the gradient is the plain sum over all tokens. `targets`: of the
 * row; `rows` and `allTargets`: of the step. SkyRL's JAX backend counts each target of a row, prompt included.
 */
export const rowFactor = (reduction: Reduction, targets: number, rows: number, allTargets: number): number =>
  reduction === 'sum' ? 1 : reduction === 'token_mean' ? allTargets : targets * rows

/**
 * What `get_server_capabilities` states of its base models: `max_context_length` of a model's entry, or else of the whole
 * answer. Values that are no number of tokens are passed over: they limit nothing.
 */
export const contextLengthsOf = (body: JsonObject): ReadonlyMap<string, number> => {
  const listed: unknown = body['supported_models']
  const entries: readonly unknown[] = Array.isArray(listed) ? listed : []
  return new Map(
    entries.flatMap((entry) => {
      const [name, own] = isJsonObject(entry) ? [entry['model_name'], entry['max_context_length']] : [entry, null]
      const length = own ?? body['max_context_length']
      const isLength = typeof length === 'number' && Number.isSafeInteger(length) && length > 0
      return typeof name === 'string' && isLength ? [[name, length] as const] : []
    }),
  )
}

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
