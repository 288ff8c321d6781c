/** The report of `instar doctor agent`: the gateway's last requests and how each was assigned to a session. */
import { requestAdmin } from '../admin-client.ts'
import { gatewayUrl, type Config } from '../config.ts'
import { table } from '../table.ts'

/** A row of /admin/requests. */
type RequestRow = {
  at: string
  dialect: string
  client: string | null
  carried: string[]
  session: string
  label_source: string
  user_turn: string | null
  kind: string
  turn: string
  messages: number
  tools: number
  off_prefix: boolean
  status: string | null
  trainable: boolean | null
  reason: string | null
  follows: string | null
  next: string | null
}

/** `label_source` → what identified the session. */
const SESSION_SOURCES: Readonly<Record<string, string>> = {
  header: 'header or URL of Instar',
  agent: 'header or field of the agent',
  minted: 'ids from our answers',
  answer: 'text of our answer',
  prompt: 'text of the prompt',
  fingerprint: 'first messages',
}

const trainedOn = ({ trainable, status, reason }: RequestRow): string =>
  trainable === null ? (status ?? 'running') : trainable ? 'yes' : `no: ${reason ?? ''}`

const joined = ({ follows, off_prefix: rewritten }: RequestRow): string =>
  follows === null ? 'first' : rewritten ? 'yes, rewritten' : 'yes'

const text = (requests: readonly RequestRow[]): string => {
  const rows = table(
    [
      { name: 'time (UTC)', of: ({ at }) => at.slice(11, 19) },
      { name: 'client', of: ({ client }) => client },
      { name: 'dialect', of: ({ dialect }) => dialect },
      { name: 'session', of: ({ session }) => session.slice(0, 20) },
      { name: 'identified by', of: ({ label_source: source }) => SESSION_SOURCES[source] ?? source },
      { name: 'user turn', of: ({ user_turn: userTurn }) => userTurn?.slice(0, 13) ?? '' },
      { name: 'kind', of: ({ kind }) => kind },
      { name: 'messages', of: ({ messages }) => messages },
      { name: 'tools', of: ({ tools }) => tools },
      { name: 'joined', of: joined },
      { name: 'trained on', of: trainedOn },
      { name: 'session fields', of: ({ carried }) => carried.join(', ') || 'none' },
    ],
    requests,
  )
  const unjoined = requests.filter((one) => one.label_source === 'fingerprint' && one.messages > 2).length
  if (unjoined === 0) return rows
  return `${rows}\n${unjoined} of these continue a conversation but match no earlier answer, since the answers are not ours or were changed. To join them, send a session id (the header x-session-id, or the base URL /s/NAME/v1).\n`
}

/** `requests`: newest first. Throws as `requestAdmin`. */
export const readAgentRequests = async (config: Config): Promise<{ requests: RequestRow[]; text: string }> => {
  const requests = await requestAdmin<RequestRow[]>(config, '/admin/requests')
  return {
    requests,
    text:
      requests.length === 0
        ? `${gatewayUrl(config)} has had no request for an answer since it started.\n`
        : text(requests),
  }
}
