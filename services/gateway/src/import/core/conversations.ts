/**
 * Parses conversations, one per line: `{messages: [{role, content, …}, …], tools?, …}` or `{conversations: [{from,
 * value}, …]}`. Each answer becomes a turn whose request is the messages before it.
 */
import { derivedId } from '@instar/events'
import { DIALECTS, fieldsOf, flag, isFields, text, wrong, type Fields } from '@instar/dialects'
import { newSession, sessionOfLabel } from '../../session/core/labels.ts'
import { episodeIn } from './episode.ts'
import { rewardsOf, sessionIn } from './requests.ts'
import { samplingOf, saidOf, timesOf, type Reading, type ImportedRequest } from './imported-request.ts'

export const isConversationLine = (line: Fields): boolean =>
  Array.isArray(line['messages']) || Array.isArray(line['conversations'])

/** Request fields that a line may hold. */
const OF_THE_REQUEST = [
  'model',
  'tools',
  'tool_choice',
  'temperature',
  'top_p',
  'max_tokens',
  'stop',
  'user',
  'metadata',
]

/** In order. Throws `bad_request`. */
export const readConversation = (line: Fields, reading: Reading): ImportedRequest[] => {
  const messages = messagesOf(line)
  const shared = Object.fromEntries(
    Object.entries(line).filter(([name, value]) => OF_THE_REQUEST.includes(name) && value !== null),
  )
  const label = sessionIn(line)
  const content = derivedId('import', 'conversation', JSON.stringify([messages, shared]))
  const named =
    label === null
      ? { session: newSession(reading.key, content.slice(0, 32)), labelSource: 'fingerprint' as const }
      : { session: sessionOfLabel(reading.key, label), labelSource: 'header' as const }
  const places = messages.flatMap(({ role }, at) =>
    role === 'assistant' && at > 0 && messages[at - 1]?.['role'] !== 'assistant' ? [at] : [],
  )
  if (places.length === 0) throw wrong('messages', 'a conversation with an answer in it')
  const times = timesOf(line)
  const last = places.at(-1)
  const episode = episodeIn(line, {}, reading)
  return places.map((at): ImportedRequest => {
    const message = messages[at]!
    const body = { ...shared, messages: messages.slice(0, at).map(bare) }
    const request = DIALECTS.chat.request(body)
    const parts = saidOf(message, `messages[${at}]`)
    return {
      ...named,
      dialect: 'chat',
      request,
      raw: Buffer.from(JSON.stringify(body), 'utf8'),
      headers: {},
      answers: [
        {
          ...parts,
          turn: null,
          candidate: 0,
          raw: null,
          finish: parts.calls.length > 0 ? 'tool_calls' : 'stop',
          ids: null,
          logprobs: null,
          rewards: [
            ...rewardsOf(message, `messages[${at}]`, reading),
            ...(at === last ? rewardsOf(line, 'the line', reading) : []),
          ],
        },
      ],
      candidates: 1,
      promptIds: null,
      claim: null,
      sampling: samplingOf(request, null),
      times: message['timestamp'] === undefined && message['created_at'] === undefined ? times : timesOf(message),
      user: request.user,
      userTurn: null,
      agent: null,
      subject: null,
      kind: null,
      optedOut: flag(line, 'no_train') || message['weight'] === 0,
      // Derived from all messages up to the answer, so that a common beginning of two conversations with one label is
      // one turn.
      identity: derivedId('import', 'said', JSON.stringify([shared, messages.slice(0, at + 1)])),
      group: null,
      engine: text(line, 'engine') ?? 'imported',
      last: at === last && flag(line, 'last'),
      episode: at === last ? episode : { ...episode, outcome: null },
    }
  })
}

const NAMES: Readonly<Record<string, string>> = {
  human: 'user',
  gpt: 'assistant',
  bot: 'assistant',
  model: 'assistant',
  chatgpt: 'assistant',
  observation: 'tool',
  function_response: 'tool',
}

const messagesOf = (line: Fields): Fields[] => {
  if (Array.isArray(line['messages']))
    return line['messages'].map((message: unknown, i) => fieldsOf(message, `messages[${i}]`))
  return (line['conversations'] as unknown[]).map((one, i) => {
    const { from, value, ...rest } = fieldsOf(one, `conversations[${i}]`)
    if (typeof from !== 'string') throw wrong(`conversations[${i}].from`, 'a name')
    return { ...rest, role: NAMES[from] ?? from, content: value }
  })
}

/** The message without annotations. */
const bare = (message: Fields): Fields =>
  Object.fromEntries(
    Object.entries(message).filter(
      ([name, value]) =>
        !['reward', 'feedback', 'weight', 'timestamp', 'created_at'].includes(name) &&
        !(name === 'tool_calls' && isFields(value)),
    ),
  )
