/**
 * Answers inside longer texts. Agents that speak a protocol in plain text send our answer back with a result behind it
 * (`…\nObservation: 42`), with a thought before it, or written anew (arguments as Python prints them). So texts are
 * compared by their words alone: runs of letters and digits, in lower case. Where a text is cut, a word ends.
 */
import { createHash, hash } from 'node:crypto'

const WORDS = /[\p{L}\p{N}]+/gu
const THOUGHT = /^\s*<think>[\s\S]*?<\/think>\s*/
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'

/** What a client put back in front of our answer is no part of it. */
export const withoutThought = (text: string): string => text.replace(THOUGHT, '')

/** Of the raw text of an answer what a person or an agent saw as its content. */
export const contentOfAnswer = (raw: string): string => {
  const close = raw.indexOf(THINK_CLOSE)
  const said = close < 0 ? raw : raw.slice(close + THINK_CLOSE.length)
  const call = said.indexOf(CALL_OPEN)
  return call < 0 ? said : said.slice(0, call)
}

/** A hash of a text's words: the number of letters and digits, and 128 bits over them. Null for a text without any. */
export const wordsName = (text: string): string | null => {
  // Hashed at once: a call for each word takes most of the time.
  let words = ''
  for (const word of text.match(WORDS) ?? []) words += word.toLowerCase()
  return words === '' ? null : nameOf(words.length, hash('sha256', words, 'hex'))
}

const nameOf = (length: number, sha256: string): string => `${length}:${sha256.slice(0, 32)}`
const lengthOf = (name: string): number => Number(name.slice(0, name.indexOf(':')))

/**
 * The keys of `names` that are a prefix of the text, longest first, each with the text after it. One pass over at
 * most as much of the text as the longest name covers.
 */
export const beginningsIn = (text: string, names: ReadonlySet<string>): { name: string; behind: string }[] => {
  const lengths = new Set([...names].map(lengthOf))
  const longest = Math.max(0, ...lengths)
  const hashed = createHash('sha256')
  const found: { name: string; behind: string }[] = []
  let length = 0
  let waiting = ''
  for (const { 0: word, index } of text.matchAll(WORDS)) {
    const lower = word.toLowerCase()
    length += lower.length
    if (length > longest) break
    waiting += lower
    if (!lengths.has(length)) continue
    hashed.update(waiting)
    waiting = ''
    const name = nameOf(length, hashed.copy().digest('hex'))
    if (names.has(name)) found.unshift({ name, behind: text.slice(index + word.length) })
  }
  return found
}

/**
 * Quotes, brackets and fences that close an answer, and tags that an agent put back where a stop string cut them off.
 */
const CLOSING = /^(?:\s*(?:[.,;:!?…"'`()[\]{}]+|<\/\w+>))*\s*/u
/** How agents begin what they put behind an answer: what they call, or what came of it. */
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
 * What an agent put behind our answer in the same message, '' for nothing; null if it is no agent's: words that go on
 * from the answer are somebody's own, and then the answer was not ours.
 */
export const putBehind = (behind: string): string | null => {
  const closed = CLOSING.exec(behind)![0]
  const put = behind.slice(closed.length)
  if (put === '') return ''
  return /[\n>]/.test(closed) && LABEL.test(put) ? put : null
}

/**
 * The same for a message that holds, besides, what the answered request held of it already (`before`: the text of its
 * messages from this one's place on). Null also where the message does not begin with both.
 */
export const behindAnswer = (message: string, before: string, answer: string): string | null => {
  const name = wordsName(`${withoutThought(before)}\n${answer}`)
  if (name === null || wordsName(answer) === null) return null
  const found = beginningsIn(withoutThought(message), new Set([name]))[0]
  return found ? putBehind(found.behind) : null
}
