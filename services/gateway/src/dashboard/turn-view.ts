/** A turn as the log has it: its messages, its answer token by token, and its log-probs under any version. */
import { sideTask } from '@instar/agents'
import { dialectOf, parseJson, type Message } from '@instar/dialects'
import { InstarError, readWritten, sessionOfTurn, type Written } from '@instar/events'
import type { TurnReader } from '@instar/log'
import type { Model, ServingEngine } from '@instar/engine/port'
import type { IdleQueue } from '../generate/idle-queue.ts'
import type { SessionIndex } from '../session/core/session-index.ts'
import { SHOWN_WITHIN_MS, type Tail } from '../session/tail.ts'
import type { Pool } from '../versions/pool.ts'

export type TextPorts = {
  reader: TurnReader
  model: Model
  engine: ServingEngine
  index: { fold: Pick<SessionIndex['fold'], 'turns'> }
  /** A session is made ready before it, or one of its turns, is looked up: a cold long one would hold the event loop. */
  tail: Pick<Tail, 'ready' | 'turnsWithin'>
}

/** To be awaited before a turn is looked up: the database may have it before the gateway has read it. */
export const turnReady = async ({ index, tail }: Pick<TextPorts, 'index' | 'tail'>, id: string): Promise<void> => {
  await tail.ready(sessionOfTurn(id))
  if (!index.fold.turns.has(id) && (await tail.turnsWithin(SHOWN_WITHIN_MS))) await tail.ready(sessionOfTurn(id))
}

/** Characters of one message, or of a prompt, that are sent; the beginning and the end of a longer one. */
export const LONGEST_TEXT = 20_000
/** Messages of a turn, the newest. */
const MOST_MESSAGES = 50
/** Requests for log-probs that wait for the model to be idle, with the one that runs. */
export const MOST_LOGPROBS = 8
/** Tokens of an answer. */
export const MOST_TOKENS = 4_096

/** Runs `work` in a place of the caller's share. Throws `overloaded`, `aborted`, or as `work`. */
export type Read = <T>(work: () => Promise<T>) => Promise<T>
/** `who`: the caller. `hold`: charges memory to the request until its reply is sent. Throws `overloaded`. */
export type Charged = { who: string; read: Read; hold: (bytes: number) => void }

type Sized = { body: { length: number }; prompt: { length: number }; ids: readonly unknown[] }
/** A body as it is stored, its text and its values. */
const BODY_COPIES = 3
/** Bytes of a token in the lists of ids and of pieces. */
const TOKEN_BYTES = 64

type Hold = Pick<Charged, 'hold'>
/** Charges what it takes to read a turn's body, or its prompt's and its answer's tokens. */
export const holdBody = ({ hold }: Hold, { body }: Sized): void => hold(BODY_COPIES * body.length)
export const holdTokens = ({ hold }: Hold, { prompt, ids }: Sized): void =>
  hold(TOKEN_BYTES * (prompt.length + ids.length))

type ShownText = { text: string; omitted: number }
type ShownMessage = {
  role: string
  name: string | null
  content: ShownText
  calls: { name: string; input: ShownText }[]
}

/** `omitted`: characters left out in the middle. */
export const shortened = (text: string, most = LONGEST_TEXT): ShownText => {
  if (text.length <= most) return { text, omitted: 0 }
  const half = Math.floor(most / 2)
  return { text: `${text.slice(0, half)}\n…\n${text.slice(-half)}`, omitted: text.length - 2 * half }
}

const writtenText = (written: Written): string =>
  written.keyId === null ? readWritten(written) : `(encrypted with ${written.keyId})`

/** As `contentText` of packages/events, with a mark for each part that is no text. */
const shownContent = (content: unknown): string => {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content)) return JSON.stringify(content)
  return content
    .map((part: unknown) => {
      const { type, text } = part as { type?: unknown; text?: unknown }
      return typeof text === 'string' ? text : `[${typeof type === 'string' ? type : 'content'}]`
    })
    .join('\n')
}

const shownMessage = (message: Message): ShownMessage => {
  const calls = Array.isArray(message['tool_calls']) ? (message['tool_calls'] as unknown[]) : []
  return {
    role: message.role,
    name: typeof message['name'] === 'string' ? message['name'] : null,
    content: shortened(shownContent(message.content)),
    calls: calls.slice(0, 20).map((call) => {
      const { name, arguments: input } = ((call as { function?: unknown }).function ?? {}) as Record<string, unknown>
      return {
        name: typeof name === 'string' ? name : '',
        input: shortened(typeof input === 'string' ? input : (JSON.stringify(input) ?? '')),
      }
    }),
  }
}

/**
 * What is new in a turn's request, its answer, and the comments of the feedback on it. The messages before are those of the turn that it continues; of a request
 * that continues none, all are new. `charged` null: only a part of it is kept. Throws
 * `unknown_turn` if the gateway no longer knows where the turn is on the log.
 */
export const turnText = async (ports: TextPorts, id: string, charged: Hold | null = null) => {
  const { reader, engine, index } = ports
  await turnReady(ports, id)
  const record = await reader.record(id)
  if (charged) holdBody(charged, record)
  const { messages } = dialectOf(record.dialect).request(
    parseJson(await reader.body(id, charged?.hold)),
    engine.capabilities().accepts,
  )
  const state = index.fold.turns.get(id)
  const continues = record.after !== null && state?.follows !== null
  const fresh = messages.slice(continues ? record.stateFrom : 0)
  return {
    /** What a side request of an agent is for; null: nothing that is known. */
    task: record.kind === 'side' ? sideTask(messages) : null,
    omitted: Math.max(0, fresh.length - MOST_MESSAGES),
    messages: fresh.slice(-MOST_MESSAGES).map(shownMessage),
    answer: shortened(writtenText(record.text)),
    /** In the order of the log. */
    comments: (state?.feedback ?? []).flatMap(({ id: given, value, at, comment }) =>
      comment === null
        ? []
        : [{ id: given, value, at: new Date(at).toISOString(), said: shortened(writtenText(comment)) }],
    ),
  }
}

/** The prompt as it was rendered, from the recorded ids, and the answer's tokens with their recorded log-probs. */
export const turnTokens = async (ports: TextPorts, id: string, charged: Charged) => {
  const { reader, model } = ports
  await turnReady(ports, id)
  const record = await reader.record(id)
  holdTokens(charged, record)
  const prompt = await reader.promptIds(id)
  const pieces = model.detokenizer()
  return {
    prompt: shortened(model.decode(prompt)),
    prompt_tokens: prompt.length,
    exact: record.tokens === 'exact',
    sampling: record.sampling,
    engine: record.engine,
    omitted: Math.max(0, record.ids.length - MOST_TOKENS),
    tokens: record.ids.slice(0, MOST_TOKENS).map((token, i) => ({
      id: token,
      text: pieces.push(token),
      logprob: record.logprobs[i] ?? null,
    })),
  }
}

/**
 * Log-probs of the recorded answer under a version, at the recorded temperature, with the most likely tokens where the
 * engine tells them. Waits until the model is idle. Throws `not_available`, `unknown_version`.
 */
export const turnLogprobs = async (
  ports: TextPorts & { pool: Pool; idle: IdleQueue },
  id: string,
  version: number,
  gone: AbortSignal,
  charged: Charged,
) => {
  const { reader, model, engine, pool, idle } = ports
  const { record, prompt } = await charged.read(async () => {
    await turnReady(ports, id)
    const found = await reader.record(id)
    if (found.tokens !== 'exact' || found.ids.length === 0)
      throw new InstarError('not_available', 'The tokens of this turn were not recorded exactly.')
    holdTokens(charged, found)
    return { record: found, prompt: await reader.promptIds(id) }
  })
  const request = {
    prompt,
    completion: record.ids.slice(0, MOST_TOKENS),
    temperature: record.sampling.temperature === 0 ? 1 : record.sampling.temperature,
    hold: charged.hold,
  }
  return idle.run(
    'logprobs',
    gone,
    async (signal) => {
      const lease = await pool.lease(version)
      try {
        const scored = engine.scoreWithTop
          ? await engine.scoreWithTop({ ...request, adapter: lease.adapter, topLogprobs: 5 }, signal)
          : { logprobs: await engine.score({ ...request, adapter: lease.adapter }, signal), top: [] }
        return {
          version,
          logprobs: [...scored.logprobs],
          top: scored.top.map((at) => at.map(({ id: token, logprob }) => ({ text: model.decode([token]), logprob }))),
        }
      } finally {
        lease.release()
      }
    },
    charged.who,
  )
}
