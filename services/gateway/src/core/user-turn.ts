/**
 * The user turn of a request: what its agent calls all the requests that one message of its user caused, those of
 * subagents and summaries among them. It is recorded for whoever reads the log; nothing is decided by it.
 */
import { parsedFields, type Fields } from '@instar/dialects'
import { header, type Headers } from './labels.ts'

/** What agents were seen to send: UUIDs. Anything else in this place is nobody's name for a turn. */
const NAME = /^[\w.:-]{1,128}$/
/** W3C Trace Context: version, trace, parent, flags. */
const TRACE = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/

/** The JSON of `x-codex-turn-metadata`; null without it, or where it is none. */
export const codexMetadata = (headers: Headers): Fields | null => {
  const metadata = header(headers, 'x-codex-turn-metadata')
  return metadata === null ? null : parsedFields(metadata)
}

/** An agent's own name before a trace's; of Codex the turn at the root, of which a subagent's turn is a part. `told`: what goes before all. */
export const userTurnOf = (headers: Headers, told: string | null = null): string | null => {
  const codex = codexMetadata(headers)
  const names = [told, codex?.['root_turn_id'], codex?.['turn_id'], header(headers, 'x-claude-code-prompt-id')]
  return (
    (names.find((name) => typeof name === 'string' && NAME.test(name)) as string | undefined) ??
    TRACE.exec(header(headers, 'traceparent') ?? '')?.[1] ??
    null
  )
}
