/**
 * Finds a recorded answer at the start of a longer text. Agents with a plain-text protocol send an answer back with a
 * result appended (`…\nObservation: 42`), with a thought in front, or reformatted (arguments as printed by Python).
 * Texts are therefore compared by their words: runs of letters and digits, in lower case. The end of a text ends a
 * word.
 */
import { createHash, hash } from 'node:crypto'

const WORDS = /[\p{L}\p{N}]+/gu
const THOUGHT = /^\s*<think>[\s\S]*?<\/think>\s*/
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'

/** Removes a `<think>` section, which some clients put in front of the answer. */
export const withoutThought = (text: string): string => text.replace(THOUGHT, '')

/** The content of a raw answer: the text between its thoughts and its first tool call. */
export const contentOfAnswer = (raw: string): string => {
  const close = raw.indexOf(THINK_CLOSE)
  const answer = close < 0 ? raw : raw.slice(close + THINK_CLOSE.length)
  const call = answer.indexOf(CALL_OPEN)
  return call < 0 ? answer : answer.slice(0, call)
}

/** `length:hash` of the words of a text: their number of characters, and 128 bits of sha256. Null without words. */
export const wordsHash = (text: string): string | null => {
  // One call for all words: a call per word would take most of the time.
  let words = ''
  for (const word of text.match(WORDS) ?? []) words += word.toLowerCase()
  return words === '' ? null : withLength(words.length, hash('sha256', words, 'hex'))
}

const withLength = (length: number, sha256: string): string => `${length}:${sha256.slice(0, 32)}`
const lengthOf = (wordsHash: string): number => Number(wordsHash.slice(0, wordsHash.indexOf(':')))

/**
 * The members of `hashes` that are the `wordsHash` of a prefix of the text, longest first, each with the rest of the
 * text. Reads the text once, up to the length of the longest hash.
 */
export const matchingPrefixes = (text: string, hashes: ReadonlySet<string>): { hash: string; rest: string }[] => {
  const lengths = new Set([...hashes].map(lengthOf))
  const longest = Math.max(0, ...lengths)
  const digest = createHash('sha256')
  const matches: { hash: string; rest: string }[] = []
  let length = 0
  let pending = ''
  for (const { 0: word, index } of text.matchAll(WORDS)) {
    const lower = word.toLowerCase()
    length += lower.length
    if (length > longest) break
    pending += lower
    if (!lengths.has(length)) continue
    digest.update(pending)
    pending = ''
    const prefix = withLength(length, digest.copy().digest('hex'))
    if (hashes.has(prefix)) matches.unshift({ hash: prefix, rest: text.slice(index + word.length) })
  }
  return matches
}

/**
 * Quotes, brackets and fences that close an answer, and closing tags that a stop string removed and an agent restored.
 */
const CLOSING = /^(?:\s*(?:[.,;:!?…"'`()[\]{}]+|<\/\w+>))*\s*/u
/** Characters in which they are looked for. In millions of them the pattern throws a RangeError. */
const MOST_CLOSING = 65_536
/** How agents label the text that they append to an answer: a tool call, or its result. */
const LABEL = new RegExp(
  [
    /^(?:Observations?|Calling tools|(?:Tool|Function|Execution)(?: \w+){0,2}|Error):/,
    /^<(?:observation|tool_\w+|result|output)>/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'i',
)

/**
 * The text that an agent appended to an answer, from the rest of the message after the words of the answer; '' if there
 * is none. Null if the rest has no label of an agent: then the message only begins with the same words as the answer.
 */
export const appendedText = (rest: string): string | null => {
  const closing = CLOSING.exec(rest.slice(0, MOST_CLOSING))![0]
  const appended = rest.slice(closing.length)
  if (appended === '') return ''
  return /[\n>]/.test(closing) && LABEL.test(appended) ? appended : null
}

/**
 * The text that an agent appended to `answer` in `message`, as by `appendedText`. `before`: the part of the message
 * that the answered request already had. Null also if the message does not begin with `before` and `answer`.
 */
export const textAfterAnswer = (message: string, before: string, answer: string): string | null => {
  const prefix = wordsHash(`${withoutThought(before)}\n${answer}`)
  if (prefix === null || wordsHash(answer) === null) return null
  const match = matchingPrefixes(withoutThought(message), new Set([prefix]))[0]
  return match ? appendedText(match.rest) : null
}
