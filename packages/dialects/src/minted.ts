/**
 * Minted ids: the ids of answers, items and tool calls that the gateway issues. Format: a prefix, 12 base32 characters
 * of the session (60 bits of its SHA-256), 12 of the turn (60 random bits of its id), and a base36 index. Alphanumeric,
 * since agents drop other characters. Every gateway finds the turn by its id.
 */
import { contentSha } from '@instar/events'
import type { Message } from './request.ts'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const HEX_DIGITS = 15

/** The first 15 hex digits in 12 base32 characters: five hex digits (20 bits) are four characters. */
const base32 = (hex: string): string => {
  let out = ''
  for (let at = 0; at < HEX_DIGITS; at += 5) {
    const bits = parseInt(hex.slice(at, at + 5), 16)
    out += ALPHABET[bits >>> 15]! + ALPHABET[(bits >>> 10) & 31]! + ALPHABET[(bits >>> 5) & 31]! + ALPHABET[bits & 31]!
  }
  return out
}

/** The session's part of a minted id: the first 60 bits of its SHA-256. */
export const sessionIdPart = (session: string): string => base32(contentSha(Buffer.from(session)).slice(0, HEX_DIGITS))

/** The turn's part of a minted id: the first 60 of the 128 random bits that the turn's id ends in. */
export const turnIdPart = (turn: string): string => base32(turn.slice(turn.lastIndexOf('.') + 1).slice(0, HEX_DIGITS))

/** The hex digits with which the end of the turn's id begins, from the turn's part of a minted id. */
export const turnDigits = (part: string): string => {
  let digits = ''
  for (let at = 0; at < part.length; at += 4) {
    let bits = 0
    for (const letter of part.slice(at, at + 4)) bits = 32 * bits + ALPHABET.indexOf(letter)
    digits += bits.toString(16).padStart(5, '0')
  }
  return digits
}

/** The same digits of a turn's id. */
export const digitsOfTurn = (turn: string): string => {
  const from = turn.lastIndexOf('.') + 1
  return turn.slice(from, from + HEX_DIGITS)
}

/**
 * `call`, `toolu`: tool calls; `msg`: a message item or an answer of Messages; `rs`, `fc`, `ctc`: reasoning, function
 * call and custom call items of Responses; `resp`, `chatcmpl`: answers; `sealed`: the signature of reasoning.
 */
const PREFIXES = ['call', 'toolu', 'msg', 'rs', 'fc', 'ctc', 'resp', 'sealed', 'chatcmpl'] as const
export type Prefix = (typeof PREFIXES)[number]

export const mintId = (prefix: Prefix, session: string, turn: string, index = 0): string =>
  `${prefix}${sessionIdPart(session)}${turnIdPart(turn)}${index.toString(36)}`

/** The id of a Chat Completions answer, with the hyphen that clients of OpenAI expect. */
export const mintChatId = (session: string, turn: string): string =>
  mintId('chatcmpl', session, turn).replace('chatcmpl', 'chatcmpl-')

export const mintCallId = (session: string, turn: string, index: number, prefix: 'call' | 'toolu' = 'call'): string =>
  mintId(prefix, session, turn, index)

export type MintedId = { prefix: Prefix; session: string; turn: string; index: number }

const MINTED = new RegExp(`^(${PREFIXES.join('|')})([a-z2-7]{12})([a-z2-7]{12})([0-9a-z]{1,2})$`)

/** Null for an id that was not minted by a gateway. Characters that an agent inserted are ignored. */
export const parseMintedId = (id: unknown): MintedId | null => {
  if (typeof id !== 'string' || id.length > 128) return null
  const match = MINTED.exec(id.replace(/[^A-Za-z0-9]/g, ''))
  return match
    ? { prefix: match[1] as Prefix, session: match[2]!, turn: match[3]!, index: parseInt(match[4]!, 36) }
    : null
}

const CALL_IN_TEXT = /(?<![A-Za-z0-9])(?:call|toolu)[a-z2-7]{24}[0-9a-z]{1,2}(?![A-Za-z0-9])/g

/** Ids in a text that are looked up: megabytes of them would hold the event loop for seconds. */
export const MOST_IN_TEXT = 256

/** The last ids of tool calls in a text, in order. Some agents send calls as text. */
export const mintedIdsInText = (text: string): MintedId[] =>
  (text.match(CALL_IN_TEXT) ?? []).slice(-MOST_IN_TEXT).flatMap((id) => parseMintedId(id) ?? [])

/** The minted ids in the messages, one for each turn; those of the last message first. */
export const mintedIdsIn = (messages: readonly Message[]): MintedId[] => {
  const found = new Map<string, MintedId>()
  for (const message of messages.toReversed()) {
    const ids: unknown[] = [message['tool_call_id'], ...(message.minted ?? [])]
    const calls = message['tool_calls']
    if (Array.isArray(calls)) for (const call of calls) ids.push((call as { id?: unknown } | null)?.id)
    for (const id of ids) {
      const minted = parseMintedId(id)
      if (!minted) continue
      const name = minted.session + minted.turn
      if (!found.has(name)) found.set(name, minted)
    }
  }
  return [...found.values()]
}
