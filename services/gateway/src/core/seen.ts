/**
 * What the last requests carried and how they were understood: for whoever connects an agent and wants to know
 * why its turns are, or are not, one session and trained on. Names of headers and fields, never their values.
 */
import { isFields, type Fields } from '@instar/dialects'
import type { LabelSource, TurnKind, TurnState } from '@instar/events'
import { header, type Headers } from './labels.ts'

/** Headers that say who is talking, or what the request is to its agent. */
const TELLING = [
  'x-session-id',
  'x-instar-session-id',
  'x-instar-turn-kind',
  'x-instar-no-train',
  'x-turn-type',
  'x-claude-code-session-id',
  'x-claude-code-agent-id',
  'x-claude-code-request-class',
  'x-claude-code-prompt-id',
  'thread-id',
  'session-id',
  'session_id',
  'x-codex-turn-metadata',
  'x-codex-window-id',
  'x-openai-subagent',
  'x-codex-parent-thread-id',
  'x-opencode-session',
  'x-session-affinity',
  'x-parent-session-id',
  'x-client-request-id',
  'x-litellm-session-id',
  'helicone-session-id',
  'x-conversation-id',
  'traceparent',
] as const
const TELLING_FIELDS = [
  'user',
  'metadata',
  'session_id',
  'prompt_cache_key',
  'safety_identifier',
  'previous_response_id',
  'client_metadata',
] as const

export const carriedBy = (headers: Headers, body: Fields): string[] => [
  ...TELLING.filter((name) => header(headers, name) !== null),
  ...TELLING_FIELDS.filter(
    (name) =>
      body[name] !== undefined &&
      body[name] !== null &&
      !(isFields(body[name]) && Object.keys(body[name]).length === 0),
  ).map((name) => `${name} (body)`),
]

export type SeenRequest = {
  at: number
  dialect: string
  /** Name and version of the program, as it says itself. */
  client: string | null
  carried: readonly string[]
  session: string
  labelSource: LabelSource
  /** As user-turn.ts reads it. */
  userTurn: string | null
  kind: TurnKind
  turn: string
  messages: number
  tools: number
  offPrefix: boolean
}

const KEPT = 64

/** `mozilla/5.0 (…) x` → `mozilla/5.0`. */
export const clientOf = (headers: Headers): string | null =>
  header(headers, 'user-agent')?.split(' ')[0]!.slice(0, 60) ?? null

/** The newest `KEPT`, oldest first. */
export class Seen {
  private readonly requests: SeenRequest[] = []

  add(request: SeenRequest): void {
    this.requests.push(request)
    if (this.requests.length > KEPT) this.requests.shift()
  }

  /** Newest first, with what has come of each turn; `turnOf`: as the log has it. */
  list(turnOf: (turn: string) => TurnState | undefined) {
    return this.requests.toReversed().map(({ at, labelSource, userTurn, offPrefix, ...request }) => {
      const turn = turnOf(request.turn)
      return {
        at: new Date(at).toISOString(),
        ...request,
        label_source: labelSource,
        user_turn: userTurn,
        off_prefix: offPrefix,
        status: turn?.status ?? null,
        trainable: turn?.trainable ?? null,
        reason: turn?.reason ?? null,
        follows: turn?.follows ?? null,
        next: turn?.next ?? null,
      }
    })
  }
}
