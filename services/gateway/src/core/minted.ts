/**
 * Ids of tool calls: `call` + 24 base32 characters, 60 bits of the session and 60 of the turn, + the place of
 * the call in its turn. Alphanumeric, since agents drop other characters, and unique for ever.
 */
import { contentSha } from '@instar/events'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const HEX_DIGITS = 15

const base32 = (hex: string): string => {
  let value = BigInt(`0x${hex}`)
  let out = ''
  for (let i = 0; i < 12; i += 1) {
    out = ALPHABET[Number(value & 31n)]! + out
    value >>= 5n
  }
  return out
}

/** The session's 60 bits: it is known by them on every gateway that has read it. */
export const sessionMark = (session: string): string => base32(contentSha(Buffer.from(session)).slice(0, HEX_DIGITS))

/** `random`: the 32 hex digits of the turn's id. */
export const turnMark = (turn: string): string => base32(turn.slice(turn.lastIndexOf('.') + 1).slice(0, HEX_DIGITS))

export const mintCallId = (session: string, turn: string, index: number): string => `call${sessionMark(session)}${turnMark(turn)}${index.toString(36)}`

export type CallMark = { session: string; turn: string }

/** Null for an id that is not ours. Characters that an agent put in between are dropped. */
export const readCallId = (id: unknown): CallMark | null => {
  if (typeof id !== 'string' || id.length > 128) return null
  const match = /^call([a-z2-7]{12})([a-z2-7]{12})[0-9a-z]{1,2}$/.exec(id.replace(/[^A-Za-z0-9]/g, ''))
  return match ? { session: match[1]!, turn: match[2]! } : null
}

type Message = { role: string; tool_calls?: unknown; tool_call_id?: unknown }

/** Our ids in the messages, the last message's first. */
export const callMarks = (messages: readonly Message[]): CallMark[] => {
  const marks: CallMark[] = []
  for (const message of messages.toReversed()) {
    const ids: unknown[] = [message.tool_call_id]
    if (Array.isArray(message.tool_calls)) for (const call of message.tool_calls) ids.push((call as { id?: unknown } | null)?.id)
    for (const id of ids) {
      const mark = readCallId(id)
      if (mark && !marks.some((seen) => seen.session === mark.session && seen.turn === mark.turn)) marks.push(mark)
    }
  }
  return marks
}
