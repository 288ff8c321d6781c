/**
 * Ids that the gateway issues: a prefix, 24 base32 characters (60 bits of the session and 60 of the turn), and an
 * index within the turn. Alphanumeric, since agents drop other characters. An id names its session and its turn on any
 * gateway.
 */
import { contentSha } from '@instar/events'
import type { Message } from './request.ts'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const HEX_DIGITS = 15

/** Five hex digits are four of base32. */
const base32 = (hex: string): string => {
  let out = ''
  for (let at = 0; at < HEX_DIGITS; at += 5) {
    const bits = parseInt(hex.slice(at, at + 5), 16)
    out += ALPHABET[bits >>> 15]! + ALPHABET[(bits >>> 10) & 31]! + ALPHABET[(bits >>> 5) & 31]! + ALPHABET[bits & 31]!
  }
  return out
}

/** A 60-bit hash that identifies the session on every gateway. */
export const sessionMark = (session: string): string => base32(contentSha(Buffer.from(session)).slice(0, HEX_DIGITS))

/** `turn` ends in the 32 random hex digits of the turn's id. */
export const turnMark = (turn: string): string => base32(turn.slice(turn.lastIndexOf('.') + 1).slice(0, HEX_DIGITS))

/**
 * Tool calls of Chat Completions and Responses, of Messages; items of Responses; whole answers, one of each dialect.
 */
const PREFIXES = ['call', 'toolu', 'msg', 'rs', 'fc', 'ctc', 'resp', 'sealed', 'chatcmpl'] as const
export type Prefix = (typeof PREFIXES)[number]

export const mintId = (prefix: Prefix, session: string, turn: string, index = 0): string =>
  `${prefix}${sessionMark(session)}${turnMark(turn)}${index.toString(36)}`

/** An answer of Chat Completions, whose clients expect the hyphen. */
export const mintChatId = (session: string, turn: string): string =>
  mintId('chatcmpl', session, turn).replace('chatcmpl', 'chatcmpl-')

export const mintCallId = (session: string, turn: string, index: number, prefix: 'call' | 'toolu' = 'call'): string =>
  mintId(prefix, session, turn, index)

export type Mark = { prefix: Prefix; session: string; turn: string; index: number }

const MINTED = new RegExp(`^(${PREFIXES.join('|')})([a-z2-7]{12})([a-z2-7]{12})([0-9a-z]{1,2})$`)

/** Null for an id that is not ours. Characters that an agent put in between are dropped. */
export const readId = (id: unknown): Mark | null => {
  if (typeof id !== 'string' || id.length > 128) return null
  const match = MINTED.exec(id.replace(/[^A-Za-z0-9]/g, ''))
  return match
    ? { prefix: match[1] as Prefix, session: match[2]!, turn: match[3]!, index: parseInt(match[4]!, 36) }
    : null
}

const CALL_IN_TEXT = /(?<![A-Za-z0-9])(?:call|toolu)[a-z2-7]{24}[0-9a-z]{1,2}(?![A-Za-z0-9])/g

/** Ids of tool calls in a text, in order: of agents that write down what they call. */
export const marksInText = (text: string): Mark[] =>
  [...text.matchAll(CALL_IN_TEXT)].flatMap(([id]) => readId(id) ?? [])

/** Our ids in the messages, the last message's first. */
export const idMarks = (messages: readonly Message[]): Mark[] => {
  const marks: Mark[] = []
  for (const message of messages.toReversed()) {
    const ids: unknown[] = [message['tool_call_id'], ...(message.minted ?? [])]
    const calls = message['tool_calls']
    if (Array.isArray(calls)) for (const call of calls) ids.push((call as { id?: unknown } | null)?.id)
    for (const id of ids) {
      const mark = readId(id)
      if (mark && !marks.some((seen) => seen.session === mark.session && seen.turn === mark.turn)) marks.push(mark)
    }
  }
  return marks
}
