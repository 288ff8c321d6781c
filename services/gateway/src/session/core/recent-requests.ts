/**
 * Keeps the most recent requests and how they were classified. It shows a developer who connects an agent why turns do
 * or do not join a session and are or are not trainable. Holds names of headers and fields, never values.
 */
import { AGENT_HEADERS, header, type Headers } from '@instar/agents'
import { isFields, type Fields } from '@instar/dialects'
import type { LabelSource, TurnKind, TurnState } from '@instar/events'

/** Headers that identify the agent, the session or the request's kind. */
const TELLING = [
  'x-session-id',
  'x-instar-session-id',
  'x-instar-turn-kind',
  'x-instar-no-train',
  'x-instar-task-id',
  ...AGENT_HEADERS,
]
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

type RecentRequest = {
  at: number
  dialect: string
  /** Name and version of the program, from its user agent. */
  client: string | null
  carried: readonly string[]
  session: string
  labelSource: LabelSource
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

/** The newest `KEPT` requests, oldest first. */
export class RecentRequests {
  private readonly requests: RecentRequest[] = []

  add(request: RecentRequest): void {
    this.requests.push(request)
    if (this.requests.length > KEPT) this.requests.shift()
  }

  /** Newest first, with the current state of each turn. `turnOf`: looks up a turn on the log. */
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
