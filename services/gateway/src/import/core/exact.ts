/**
 * Checks that the tokens of an imported record are the sampled ones, as far as the record allows. A record that is
 * inconsistent is not token-exact; nothing is repaired.
 */
import { parseAnswer } from '@instar/dialects'
import { canonicalJson } from '@instar/events'
import type { Reading, ImportedAnswer, ImportedRequest } from './imported-request.ts'

/**
 * The log's data for the check: the adapter of each version (null: the base), and the size of the model's vocabulary.
 */
export type Line = { versions: Pick<ReadonlyMap<number, string | null>, 'get'>; vocabulary: number | null }

export type Inexact =
  | 'no_ids'
  | 'no_logprobs'
  | 'no_prompt_ids'
  | 'lengths_differ'
  | 'bad_logprobs'
  | 'not_this_vocabulary'
  | 'text_differs'
  | 'no_version'
  | 'foreign_version'
  | 'unknown_version'
  | 'other_adapter'

/** Tolerance for a log-prob above 0 caused by rounding. */
const ABOVE_ONE = 1e-3

/** The reason why the record is not token-exact, or null if it is. */
export const whyInexact = (
  imported: ImportedRequest,
  said: ImportedAnswer,
  line: Line,
  reading: Reading,
): Inexact | null => {
  const { promptIds, claim } = imported
  const { ids, logprobs } = said
  if (ids === null || ids.length === 0) return 'no_ids'
  if (logprobs === null || logprobs.length === 0) return 'no_logprobs'
  if (promptIds === null || promptIds.length === 0) return 'no_prompt_ids'
  if (ids.length !== logprobs.length) return 'lengths_differ'
  if (!logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= ABOVE_ONE)) return 'bad_logprobs'
  const { vocabulary } = line
  if (vocabulary === null || [...ids, ...promptIds].some((id) => id >= vocabulary)) return 'not_this_vocabulary'
  if (claim === null) return 'no_version'
  if (!claim.ours) return 'foreign_version'
  const adapter = line.versions.get(claim.version)
  if (adapter === undefined) return 'unknown_version'
  if (claim.adapter !== undefined && claim.adapter !== adapter) return 'other_adapter'
  return agrees(imported, said, ids, reading) ? null : 'text_differs'
}

/** A stop string is sampled but not shown: the recorded answer is then a prefix of the decoded one. */
const agrees = (
  { sampling }: ImportedRequest,
  { raw, content, calls }: ImportedAnswer,
  ids: readonly number[],
  { decode }: Reading,
): boolean => {
  const decoded = decode?.(ids) ?? ''
  if (raw !== null) return sampling.stop.length > 0 ? decoded.startsWith(raw) : decoded === raw
  const shown = parseAnswer(decoded)
  if (shown.toolCalls.length > 0 && calls.length === 0) return decoded.trim() === content.trim()
  const same =
    sampling.stop.length > 0 ? shown.content.trim().startsWith(content.trim()) : shown.content.trim() === content.trim()
  return same && canonicalJson(shown.toolCalls.map(called)) === canonicalJson(calls.map(called))
}

const called = ({ name, arguments: given }: { name: string; arguments: string }): [string, unknown] => {
  try {
    return [name, JSON.parse(given)]
  } catch (error) {
    if (error instanceof SyntaxError) return [name, given]
    throw error
  }
}
