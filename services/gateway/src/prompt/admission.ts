/** Computes everything that generation needs from a request: session, history, prompt, storage. */
import {
  contextLengthExceeded,
  InstarError,
  lastShown,
  MAX_DEPTH,
  storeBody,
  storeIds,
  type Earlier,
  type TurnState,
} from '@instar/events'
import type { Model, ServingEngine } from '@instar/engine/port'
import { dialectOf, lastAnswer, type Dialect, type Request } from '@instar/dialects'
import { extendsIds, withSampledIds } from './core/history.ts'
import { agentNameOf, parentSession, rewritesUser, userTurnOf, type Headers } from '@instar/agents'
import { labelOf, newSession, promptGroup, sessionOfLabel, subjectOf } from '../session/core/labels.ts'
import { answersOf } from '../session/core/resolve.ts'
import type { SessionQuery } from '../session/core/session-query.ts'
import { sessionState, type SessionIndex } from '../session/core/session-index.ts'
import { extraOf } from '../session/core/stored-turns.ts'
import { bringsResults, kindOf } from '../session/core/side.ts'
import { taskOf } from '../session/core/task.ts'
import { hex } from '../generate/random.ts'
import { digestsOf, lastMain, type Admitted } from '../capture/core/turn.ts'
import { beyondContext } from './counting.ts'
import { checkMessages } from './core/overflow.ts'
import { holdingDuring, parseHeld, readOr, withEarlierBody } from '../session/earlier-body.ts'
import type { EarlierPorts, Reader } from '../session/earlier-body.ts'
import { readSession, resolveSession } from '../session/sessions.ts'
import type { Tail } from '../session/tail.ts'

export type AdmissionPorts = EarlierPorts & {
  index: SessionIndex
  tail: Tail
  model: Model
  engine: ServingEngine
  random: (bytes: number) => Uint8Array
  tailWaitMs: number
  policy: string
}

/** `raw`: the body after its references to the log were resolved. */
type Incoming = Reader & {
  dialect: Dialect
  request: Request
  raw: Uint8Array
  headers: Headers
  segment: string | null
  prompt?: string | undefined
  /** The task of the episode that the URL names; '' if it is not known. */
  task?: string | undefined
  at: number
}

export type Admission = {
  /** The caller adds the lease's version and adapter. */
  facts: Omit<Admitted, 'version' | 'adapter'>
  prompt: number[]
  /** Must be on the log before the turn: the part of the body that exceeds a record's size. */
  blob: { bytes: Uint8Array; sha256: string } | null
  /** The parent session, if the log does not know it yet. */
  parent: string | null
  /** The agent rewrote the user's last message (packages/agents). */
  contaminated: boolean
  /** The prompt ends inside an open `<think>`. */
  insideReasoning: boolean
}

export const admit = async (ports: AdmissionPorts, incoming: Incoming): Promise<Admission> => {
  const { index, model } = ports
  const { request, raw, headers, key, at } = incoming
  checkMessages(request.messages)
  const task = taskOf(incoming)
  const beyond = beyondContext(model, request)
  if (beyond !== null) throw contextLengthExceeded(beyond, model.contextLength)
  const answers = answersOf(request.messages)
  const { digest, before } = digestsOf(request, answers.at(-1)?.at ?? null)
  const asked: SessionQuery = {
    key,
    messages: request.messages,
    answers,
    digest,
    before,
    label: labelOf(headers, request.body, incoming.segment),
    subject: request.user === null ? null : subjectOf(request.user, key, ''),
  }
  const resolved = await resolveSession(ports, asked, newSession(key, hex(ports.random(16))), incoming)
  await readSession(ports, asked, resolved.session, request.tools.length > 0)
  const state = sessionState(index, resolved.session)
  const { follows, turns, agentAddedText } = resolved
  const prompt = await renderPrompt(ports, request, answers, turns)
  if (prompt.length >= model.contextLength) throw contextLengthExceeded(prompt.length, model.contextLength)

  // Body and prompt are stored as differences from those of `base`: the turn that the request continues, or else the
  // last turn of the session that was shown. Null: they are stored in full.
  const base = follows ?? lastShown(state) ?? null
  const main = lastMain(state?.turns ?? [])?.turn
  const body = base
    ? await holdingDuring(incoming, async (asking) => storeBody(raw, await earlierBody(ports, base, asking, main)))
    : storeBody(raw, null)
  const earlier = base && (await earlierIds(ports, base))
  const ids = storeIds(prompt, earlier)
  // Whether the prompt does not begin with the tokens of the turn that it continues. A conversation that continues no
  // turn of ours, but has answers, does not begin with tokens that were sampled here.
  const offPrefix = follows ? earlier === null || !extendsIds(prompt, earlier.content) : answers.length > 0
  const capabilities = ports.engine.capabilities()
  const last = lastAnswer(request.messages)
  const hasNextState = agentAddedText || last.stateFrom < request.messages.length
  const startedBy = parentSession(headers)
  const parent = startedBy === null ? null : sessionOfLabel(key, startedBy)
  const kind = kindOf(headers, request, await hadTools(ports, main, base, incoming))
  return {
    prompt,
    parent: parent !== null && parent !== resolved.session && !state?.parent ? parent : null,
    contaminated: kind === 'main' && rewritesUser(request.messages),
    insideReasoning: model.decode(prompt.slice(-8)).trimEnd().endsWith('<think>'),
    blob: body.stored.blob === null ? null : { bytes: body.middle, sha256: body.stored.blob },
    facts: {
      session: resolved.session,
      policy: ports.policy,
      group:
        incoming.prompt === undefined || answers.length > 0
          ? hex(ports.random(16))
          : promptGroup(key, incoming.prompt, digest),
      candidates: request.n,
      dialect: incoming.dialect.name,
      kind,
      labelSource: resolved.source,
      userTurn: userTurnOf(headers),
      agent: agentNameOf(headers, request.messages),
      subject: subjectOf(request.user, key, resolved.session),
      key,
      digest,
      body: body.stored,
      ...last,
      // The answer that the request continues. If the last answer was found by an id or by its words, it differs from
      // the recorded one: the recorded key is stored, so that all readers join the same turns. Null: no next state.
      after: follows && !turns.at(-1) ? (hasNextState ? follows.answer : null) : last.after,
      prompt: ids.stored,
      tokens: capabilities.tokenExact && capabilities.logprobs ? 'exact' : 'none',
      offPrefix,
      task,
      engine: capabilities.fingerprint,
      at,
    },
  }
}

/** Renders the prompt. Answers that this gateway sampled are inserted as their sampled ids. */
const renderPrompt = async (
  ports: AdmissionPorts,
  request: Request,
  answers: SessionQuery['answers'],
  turns: readonly (TurnState | undefined)[],
): Promise<number[]> => {
  const { messages, tools } = request
  if (turns.every((turn) => turn === undefined)) return ports.model.promptIds(messages, { tools })
  const sampled = new Map<number, readonly number[]>()
  await Promise.all(
    turns.map(async (turn, i) => {
      if (!turn) return
      const record = await readOr(null, () => ports.reader.record(turn.turn))
      if (record?.tokens === 'exact' && record.ids.length > 0) sampled.set(answers[i]!.at, record.ids)
    }),
  )
  return ports.model.promptIds(withSampledIds(messages, sampled), { tools })
}

/**
 * Null if the earlier body cannot be read (`readOr`); the turn is then stored in full. So it is with `earlierIds`. `main`: the
 * turn of which `hadTools` asks; where it is this one, the body is read once for both.
 */
const earlierBody = (
  ports: AdmissionPorts,
  base: TurnState,
  asking: Reader,
  main: string | undefined,
): Promise<Earlier<Uint8Array> | null> => {
  const { turn } = base
  const extra = extraOf(base)
  const depth = extra?.bodyDepth ?? MAX_DEPTH
  return readOr<Earlier<Uint8Array> | null>(null, () =>
    withEarlierBody(ports, turn, asking, (content, { dialect }) => {
      if (extra && turn === main) extra.tools ??= knownTools(dialect, content, asking.hold)
      return { turn, depth, content }
    }),
  )
}

const earlierIds = async ({ reader }: AdmissionPorts, base: TurnState): Promise<Earlier<readonly number[]> | null> => {
  const { turn } = base
  const depth = extraOf(base)?.idsDepth ?? MAX_DEPTH
  return readOr<Earlier<readonly number[]> | null>(null, async () => ({
    turn,
    depth,
    content: [...(await reader.promptIds(turn)), ...(await reader.record(turn)).ids],
  }))
}

/**
 * Whether `turn`, the session's last main turn, had tools or tool results; null without a main turn, and where it cannot be
 * read. `base`: the turn that `earlierBody` has looked at.
 */
const hadTools = async (
  ports: AdmissionPorts,
  turn: string | undefined,
  base: TurnState | null,
  asking: Reader,
): Promise<boolean | null> => {
  const extra = turn === undefined ? undefined : extraOf(ports.index.fold.turns.get(turn))
  if (turn === undefined || !extra) return null
  if (turn === base?.turn) return extra.tools
  extra.tools ??= await readOr<boolean | null>(null, () =>
    holdingDuring(asking, (asking) =>
      withEarlierBody(ports, turn, asking, (body, { dialect }) => knownTools(dialect, body, asking.hold)),
    ),
  )
  return extra.tools
}

/** Null if the parsed body takes more memory than one request may. */
const knownTools = (...body: Parameters<typeof bringsTools>): boolean | null => {
  try {
    return bringsTools(...body)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'body_too_large') return null
    throw error
  }
}

const bringsTools = (dialect: Dialect['name'], body: Uint8Array, hold: Reader['hold']): boolean => {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  // In JSON, a quote inside a string is escaped, so this matches field names and whole values only.
  if (!['"tools"', '"tool"', '"tool_result"', '_call_output"'].some((field) => bytes.includes(field))) return false
  const fields = parseHeld(body, hold)
  const { tools } = fields
  return (Array.isArray(tools) && tools.length > 0) || bringsResults(dialectOf(dialect).messages(fields))
}
