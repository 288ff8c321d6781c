/**
 * A recording of a client's requests and their turns: one line of what the log had at the end, then one line per
 * answered request. Long texts are shortened, equal texts equally; names of machine, folders and people are replaced;
 * an id of the gateway is replaced by its turn, so that a replay can insert its own.
 */
import { release } from 'node:os'
import { mintId, parseMintedId, turnIdPart } from '@instar/dialects'
import { readWritten, type LabelSource, type TurnAborted, type TurnCaptured, type TurnKind } from '@instar/events'
import { messagesOf, saidSince } from '../../../services/scorer/src/core/conversation.ts'
import type { Story } from '../scene.ts'
import type { Exchange } from '../wire.ts'

/** One turn of the log. `heard`: its next state, by speaker, as the scorer reads it; null without one. */
export type Became = {
  session: number
  source: LabelSource
  /** An index in the order in which user turns began; null if the client sends no user turn id. */
  userTurn: number | null
  kind: TurnKind
  status: 'complete' | 'aborted'
  attempt: number
  next: number | null
  offPrefix: boolean
  reason: string | null
  heard: { user: string; tools: string } | null
}
/** `said`: the raw text of the model; of a cut answer the part that was sent. */
export type Request = { path: string; headers: Record<string, string>; body: unknown; said: string; cut: boolean }
export type Tape = { client: string; became: Became[]; requests: Request[] }

/** `bodies`: of each turn, as on the log. */
export const becameOf = (story: Story, bodies: ReadonlyMap<string, Uint8Array>): Became[] => {
  const userTurns = [...new Set(story.turns.flatMap(({ event }) => event.userTurn ?? []))]
  return story.turns.map(({ session, kind, status, attempt, next, offPrefix, reason, event }) => {
    const following = next === null ? null : story.turns[next]!.event
    const said = (turn: TurnCaptured | TurnAborted) => messagesOf(turn.dialect, bodies.get(turn.turn)!)
    return {
      session,
      source: event.labelSource,
      userTurn: event.userTurn === null ? null : userTurns.indexOf(event.userTurn),
      kind,
      status,
      attempt,
      next,
      offPrefix,
      reason,
      heard:
        following &&
        saidSince({ messages: said(event), text: readWritten(event.text) }, said(following), following.stateFrom),
    }
  })
}

/** With the part of the heard text that a shortened text keeps. */
export const shortened = (became: readonly Became[]): Became[] =>
  became.map((turn) => ({
    ...turn,
    heard: turn.heard && { user: turn.heard.user.slice(0, HEARD), tools: turn.heard.tools.slice(0, HEARD) },
  }))

const HEARD = 120
const LONGEST = 300
const HEAD = 200
const TAIL = 60
const cutText = (text: string): string =>
  text.length <= LONGEST ? text : `${text.slice(0, HEAD)}…${text.length} characters…${text.slice(-TAIL)}`

/** A tool is recorded by its name and kind. */
const cutTool = (tool: unknown): unknown => {
  if (typeof tool !== 'object' || tool === null) return tool
  const { type, name, function: inner, tools, input_schema: schema } = tool as Record<string, unknown>
  return {
    ...(type === undefined ? {} : { type }),
    ...(name === undefined ? {} : { name }),
    ...(inner === undefined ? {} : { function: { name: (inner as { name: unknown }).name, parameters: {} } }),
    ...(schema === undefined ? {} : { input_schema: {} }),
    ...(Array.isArray(tools) ? { tools: tools.map(cutTool) } : {}),
  }
}

const cutValue = (value: unknown): unknown => {
  if (typeof value === 'string') return cutText(value)
  if (Array.isArray(value)) return value.map(cutValue)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === 'tools' && Array.isArray(inner) ? inner.map(cutTool) : cutValue(inner),
    ]),
  )
}

const DROPPED = new Set(['authorization', 'x-api-key', 'host', 'content-length', 'connection', 'accept-encoding'])
const MINTED = /\b[a-z]{2,6}[a-z2-7]{24}[0-9a-z]{1,2}\b/g
const UUID = /(?<![0-9a-f-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f-])/g
const SHA = /\b[0-9a-f]{64}\b/g

/** `hidden`: texts of this machine and their replacements. */
export const tapeOf = (
  client: string,
  exchanges: readonly Exchange[],
  story: Story,
  became: Became[],
  hidden: readonly (readonly [text: string, name: string])[],
): Tape => {
  const places = new Map(story.turns.map(({ event }, i) => [turnIdPart(event.turn), i]))
  const seen = new Map<string, string>()
  const alias = (id: string, of: (n: number) => string): string =>
    seen.get(id) ?? (seen.set(id, of(seen.size + 1)), seen.get(id)!)
  const clean = (text: string): string => {
    let out = text
    for (const [found, name] of [...hidden, [release(), '6.0.0'] as const]) out = out.replaceAll(found, name)
    return out
      .replace(MINTED, (id) => {
        const mark = parseMintedId(id)
        const place = mark && places.get(mark.turn)
        return mark && place !== undefined && place !== null ? `{${mark.prefix}:${place}:${mark.index}}` : id
      })
      .replace(UUID, (id) => alias(id, (n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`))
      .replace(SHA, (id) => alias(id, (n) => String(n).padStart(64, '0')))
  }
  const requests = story.turns.map(({ event, status }): Request => {
    const exchange = exchanges.find(({ turn }) => turn === event.turn)
    if (!exchange) throw new Error(`turn ${event.turn} was not asked for over the wire`)
    return {
      path: exchange.path,
      headers: Object.fromEntries(
        Object.entries(exchange.headers).flatMap(([name, value]) =>
          DROPPED.has(name) || typeof value !== 'string' ? [] : [[name, clean(value)]],
        ),
      ),
      body: cutValue(JSON.parse(clean(exchange.body))),
      said: clean(readWritten(event.text)),
      cut: status === 'aborted',
    }
  })
  return { client, became: shortened(JSON.parse(clean(JSON.stringify(became))) as Became[]), requests }
}

export const writeTape = ({ client, became, requests }: Tape): string =>
  `${[{ client, became }, ...requests].map((line) => JSON.stringify(line)).join('\n')}\n`

export const readTape = (text: string): Tape => {
  const [first, ...requests] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
  return { ...(first as Pick<Tape, 'client' | 'became'>), requests: requests as Request[] }
}

/** The text with the ids of the replay's turns; `turns`: those requested so far. */
export const withIds = (text: string, turns: readonly { turn: string; session: string }[]): string =>
  text.replace(/\{(call|toolu|msg|rs|fc|ctc|resp|sealed):(\d+):(\d+)\}/g, (_, prefix, place, index) => {
    const turn = turns[Number(place)]
    if (!turn) throw new Error(`turn ${place} of the tape was not asked yet`)
    return mintId(prefix as Parameters<typeof mintId>[0], turn.session, turn.turn, Number(index))
  })
