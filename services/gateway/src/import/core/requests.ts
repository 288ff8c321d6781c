/**
 * Parses request logs, one per line: `{request: {messages, …}, response: {choices: […]}}`, either of them optionally
 * inside a `body`; token ids and log-probs as vLLM and SGLang report them; and the additional fields that `instar
 * export` writes.
 */
import { contentSha, derivedId, type LabelSource, type TurnKind } from '@instar/events'
import {
  DIALECTS,
  dialectOf,
  fieldsOf,
  flag,
  integer,
  isFields,
  text,
  wrong,
  type Fields,
  type FinishReason,
  type Request,
} from '@instar/dialects'
import { fingerprintSession, labelOf, sessionOfLabel } from '../../session/core/labels.ts'
import { knownAgentName, sessionInMessages, type Headers } from '@instar/agents'
import { optedOut } from '../../capture/core/turn.ts'
import { episodeIn } from './episode.ts'
import {
  firstOf,
  idsOf,
  numbersOf,
  rewardOf,
  samplingOf,
  saidOf,
  timeOf,
  timesOf,
  type Claim,
  type Reading,
  type Reward,
  type ImportedAnswer,
  type ImportedRequest,
} from './imported-request.ts'

/** `raw`: the request's bytes as they were sent, where known. */
const bytesOf = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value), 'utf8')

export const isRequestLine = (line: Fields): boolean =>
  isFields(line['request']) || (Array.isArray(line['messages']) && isFields(line['response']))

/** Throws `bad_request`. */
export const readRequest = (line: Fields, reading: Reading): ImportedRequest => {
  const sent = unwrapped(isFields(line['request']) ? line['request'] : withoutAnswer(line))
  const answered = unwrapped(fieldsOf(line['response'] ?? line['completion'], 'response'))
  refuseFailed(line['response'], answered)
  const dialect = dialectOf(text(line, 'dialect') ?? (sent['input'] === undefined ? 'chat' : 'responses'))
  const request = dialect.request({ ...(dialect === DIALECTS.messages ? { max_tokens: 1 } : {}), ...sent })
  const answers = choicesOf(answered, line, reading)
  const headers = headersOf(line['headers'])
  const raw = bytesOf(sent)
  const times = timesOf(line, answered['created'])
  return {
    ...sessionOf(line, headers, request, answers[0]!, reading),
    dialect: dialect.name,
    request,
    raw,
    headers,
    answers,
    candidates: Math.max(request.n, ...answers.map(({ candidate }) => candidate + 1)),
    promptIds: idsOf(
      answered['prompt_token_ids'] ?? firstChoice(answered)['prompt_token_ids'],
      'response.prompt_token_ids',
    ),
    claim: claimOf(line, answered, request, headersOf(line['response_headers']), reading),
    sampling: samplingOf(request, line['sampling']),
    times,
    user: request.user ?? text(line, 'user'),
    userTurn: text(line, 'user_turn'),
    agent: agentIn(line),
    subject: subjectIn(line),
    kind: kindIn(line),
    optedOut: flag(line, 'no_train') || optedOut(headers),
    identity: [
      contentSha(raw),
      JSON.stringify(answers.map(({ content, reasoning, calls }) => [content, reasoning, calls])),
      times.at ?? '',
    ].join(' '),
    group: text(line, 'group'),
    engine: text(line, 'engine') ?? 'imported',
    last: flag(line, 'last'),
    episode: episodeIn(line, headers, reading),
  }
}

const agentIn = (line: Fields): string | null => {
  const { agent } = line
  return typeof agent === 'string' ? knownAgentName(agent) : null
}

const unwrapped = (fields: Fields): Fields => (isFields(fields['body']) ? fields['body'] : fields)

const BESIDE = [
  'response',
  'session_id',
  'conversation_id',
  'thread_id',
  'reward',
  'feedback',
  'timestamp',
  'headers',
  'task_id',
  'outcome',
  'discarded',
  'agent',
]
const withoutAnswer = (line: Fields): Fields =>
  Object.fromEntries(Object.entries(line).filter(([name]) => !BESIDE.includes(name)))

const refuseFailed = (response: unknown, answered: Fields): void => {
  const status = isFields(response) ? (response['status_code'] ?? response['status']) : null
  if ((typeof status === 'number' && status >= 400) || isFields(answered['error']))
    throw wrong('response', 'an answer: this request failed')
}

export const headersOf = (value: unknown): Headers =>
  isFields(value)
    ? Object.fromEntries(
        Object.entries(value).flatMap(([name, one]) => (typeof one === 'string' ? [[name.toLowerCase(), one]] : [])),
      )
    : {}

const firstChoice = (answered: Fields): Fields =>
  Array.isArray(answered['choices']) && isFields(answered['choices'][0]) ? answered['choices'][0] : {}

const FINISHES: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  end_turn: 'stop',
}

const choicesOf = (answered: Fields, line: Fields, reading: Reading): ImportedAnswer[] => {
  const { choices } = answered
  if (!Array.isArray(choices) || choices.length === 0) throw wrong('response.choices', 'a list of at least one answer')
  return choices.map((one: unknown, i): ImportedAnswer => {
    const where = `response.choices[${i}]`
    const choice = fieldsOf(one, where)
    const message = isFields(choice['message']) ? choice['message'] : { content: choice['text'] }
    if (message['content'] === undefined && message['tool_calls'] === undefined)
      throw wrong(`${where}.message`, 'a message with content or calls')
    const parts = saidOf(message, `${where}.message`)
    const ended = choice['finish_reason'] ?? 'stop'
    const finish = typeof ended === 'string' ? FINISHES[ended] : undefined
    if (finish === undefined) throw wrong(`${where}.finish_reason`, 'stop, length or tool_calls')
    return {
      ...parts,
      turn: turnIn(text(choice, 'turn_id') ?? (choices.length === 1 ? text(line, 'turn_id') : null)),
      candidate: integer(choice, 'index', 0, 1e6) ?? i,
      raw: text(choice, 'raw_text'),
      finish: parts.calls.length > 0 && finish === 'stop' ? 'tool_calls' : finish,
      ids: idsOf(choice['token_ids'], `${where}.token_ids`),
      logprobs: logprobsIn(choice, where),
      rewards: rewardsOf(choices.length === 1 ? { ...line, ...choice } : choice, where, reading),
    }
  })
}

/** The id if it has the format of our turn ids, else null. */
const turnIn = (id: string | null): string | null =>
  id !== null && /^[A-Za-z0-9_-]{1,160}\.[0-9a-f]{32}$/.test(id) ? id : null

const logprobsIn = (choice: Fields, where: string): number[] | null => {
  const given = choice['logprobs']
  if (Array.isArray(given)) return numbersOf(given, `${where}.logprobs`)
  const content = isFields(given) ? (given['content'] ?? given['token_logprobs']) : null
  if (content === null || content === undefined) return null
  if (!Array.isArray(content)) throw wrong(`${where}.logprobs.content`, 'a list')
  return numbersOf(
    content.map((entry: unknown) => (isFields(entry) ? entry['logprob'] : entry)),
    `${where}.logprobs.content`,
  )
}

/** `reward` in another trainer's log, `feedback` in ours. */
export const rewardsOf = (fields: Fields, where: string, reading: Reading): Reward[] => {
  const given = fields['feedback']
  const listed = (Array.isArray(given) ? given : given === undefined || given === null ? [] : [given]).map(
    (one: unknown): Reward | null => {
      if (!isFields(one)) return rewardFrom(rewardOf(one, `${where}.feedback`, reading))
      const value = one['value']
      if (typeof value !== 'boolean' && !(typeof value === 'number' && value >= -1 && value <= 1))
        throw wrong(`${where}.feedback.value`, 'true, false or a number from -1 to 1')
      return {
        id: text(one, 'id'),
        value: typeof value === 'boolean' ? (value ? 1 : -1) : value,
        comment: text(one, 'comment'),
        at: timeOf(one['at'], `${where}.feedback.at`),
      }
    },
  )
  return [rewardFrom(rewardOf(fields['reward'], `${where}.reward`, reading)), ...listed].filter(
    (reward) => reward !== null,
  )
}

const rewardFrom = (value: number | null): Reward | null =>
  value === null ? null : { id: null, value, comment: null, at: null }

/** The version that the record names. A bare number may belong to another trainer. */
const claimOf = (
  line: Fields,
  answered: Fields,
  request: Request,
  headers: Headers,
  { policy, ownVersions }: Reading,
): Claim | null => {
  const adapter = line['adapter']
  const said = typeof adapter === 'string' || adapter === null ? { adapter } : {}
  const ours =
    [answered['system_fingerprint'], answered['model'], request.model].flatMap((name) => {
      const [, of, version] = typeof name === 'string' ? (/^(?:instar-)?(.+)@(\d{1,9})$/.exec(name) ?? []) : []
      return of === policy ? [Number(version)] : []
    })[0] ?? (/^\d{1,9}$/.test(String(headers['x-instar-version'])) ? Number(headers['x-instar-version']) : undefined)
  if (ours !== undefined) return { version: ours, ours: true, ...said }
  const found = firstOf(line, ['version', 'policy_version']) ?? firstOf(answered, ['policy_version'])
  if (!found) return null
  const version = integer({ [found.name]: found.value }, found.name, 0, 1e9)
  return version === null ? null : { version, ours: ownVersions, ...said }
}

const sessionOf = (
  line: Fields,
  headers: Headers,
  request: Request,
  answer: ImportedAnswer,
  { key }: Reading,
): { session: string; labelSource: LabelSource } => {
  const named = sessionIn(line)
  const label = labelOf(headers, request.body, named)
  if (label !== null) return { session: sessionOfLabel(key, label.value), labelSource: label.source }
  const inPrompt = sessionInMessages(request.messages)
  return inPrompt !== null
    ? { session: sessionOfLabel(key, inPrompt), labelSource: 'prompt' }
    : {
        session: fingerprintSession(key, [...request.messages, { role: 'assistant', content: answer.content }]),
        labelSource: 'fingerprint',
      }
}

export const sessionIn = (line: Fields): string | null => {
  const found = firstOf(line, ['session_id', 'conversation_id', 'thread_id', 'session', 'trajectory_uid'])
  if (!found) return null
  if (typeof found.value !== 'string' && typeof found.value !== 'number') throw wrong(found.name, 'a text')
  return String(found.value).trim() || null
}

const kindIn = (line: Fields): TurnKind | null => {
  const kind = text(line, 'kind')
  if (kind !== null && kind !== 'main' && kind !== 'side') throw wrong('kind', 'main or side')
  return kind
}

const subjectIn = (line: Fields): string | null => {
  const subject = text(line, 'subject')
  return subject !== null && /^[0-9a-f]{64}$/.test(subject)
    ? subject
    : subject === null
      ? null
      : derivedId('subject', 'import', Buffer.from(subject).toString('base64'))
}
