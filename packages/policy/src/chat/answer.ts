/**
 * A sampled answer → what the APIs show: content, reasoning (`<think>…</think>`), tool calls (Hermes and Qwen:
 * `<tool_call>{"name": …, "arguments": …}</tool_call>`, also with a list of calls inside). Arguments come as
 * the model wrote them, byte for byte. What does not parse stays content.
 */

export type ToolCall = { name: string; arguments: string }
export type Answer = { content: string; reasoning: string; toolCalls: ToolCall[] }

type Span = { from: number; to: number }
type Fields = Map<string, Span>

/** End of the JSON value that starts at `at` (no white space before it). The text is known to be JSON. */
function valueEnd(json: string, at: number): number {
  const string = /"(?:[^"\\]|\\.)*"/y
  string.lastIndex = at
  if (json[at] === '"') return string.test(json) ? string.lastIndex : json.length
  if (json[at] !== '{' && json[at] !== '[') {
    const scalar = /[^\s,\]}]*/y
    scalar.lastIndex = at
    scalar.test(json)
    return scalar.lastIndex
  }
  let depth = 0
  const marks = /"(?:[^"\\]|\\.)*"|[{}[\]]/g
  marks.lastIndex = at
  for (let mark = marks.exec(json); mark; mark = marks.exec(json)) {
    if (mark[0] === '{' || mark[0] === '[') depth++
    else if (mark[0] === '}' || mark[0] === ']') depth--
    if (depth === 0) return marks.lastIndex
  }
  return json.length
}

function skipSpace(json: string, at: number): number {
  let next = at
  while (next < json.length && /\s/.test(json[next] ?? '')) next++
  return next
}

/** Where the value of each key of an object lies; null if `json` from `at` on is no object. */
function fieldsOf(json: string, at: number): Fields | null {
  if (json[at] !== '{') return null
  const fields: Fields = new Map()
  let next = skipSpace(json, at + 1)
  while (next < json.length && json[next] !== '}') {
    const keyEnd = valueEnd(json, next)
    const key = String(JSON.parse(json.slice(next, keyEnd)))
    const from = skipSpace(json, skipSpace(json, keyEnd) + 1)
    const to = valueEnd(json, from)
    fields.set(key, { from, to })
    next = skipSpace(json, to)
    if (json[next] === ',') next = skipSpace(json, next + 1)
  }
  return fields
}

function elementStarts(json: string): number[] {
  const starts: number[] = []
  let next = skipSpace(json, 1)
  while (next < json.length && json[next] !== ']') {
    starts.push(next)
    next = skipSpace(json, valueEnd(json, next))
    if (json[next] === ',') next = skipSpace(json, next + 1)
  }
  return starts
}

function toolCall(json: string, at: number): ToolCall | null {
  const fields = fieldsOf(json, at)
  const name = fields?.get('name')
  const given = fields?.get('arguments') ?? fields?.get('parameters')
  if (!name || json[name.from] !== '"') return null
  const raw = given ? json.slice(given.from, given.to) : '{}'
  const called: unknown = JSON.parse(json.slice(name.from, name.to))
  const inner: unknown = raw.startsWith('"') ? JSON.parse(raw) : raw
  return { name: String(called), arguments: String(inner) }
}

/** The calls of one block, or null if it holds anything else. */
function callsOf(block: string): ToolCall[] | null {
  const json = block.trim()
  try {
    JSON.parse(json)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
  const calls = (json.startsWith('[') ? elementStarts(json) : [0]).map((at) => toolCall(json, at))
  return calls.every((call): call is ToolCall => call !== null) && calls.length > 0 ? calls : null
}

const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'
const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'

/** A text without an opening tag but with a closing one began inside the reasoning: the template opened it. */
function splitReasoning(text: string): { reasoning: string; rest: string } {
  const start = text.trimStart()
  const close = text.indexOf(THINK_CLOSE)
  if (start.startsWith(THINK_OPEN)) {
    const from = text.length - start.length + THINK_OPEN.length
    if (close < 0) return { reasoning: text.slice(from).trim(), rest: '' }
    return {
      reasoning: text.slice(from, close).trim(),
      rest: text.slice(close + THINK_CLOSE.length).replace(/^\n+/, ''),
    }
  }
  if (close < 0) return { reasoning: '', rest: text }
  return { reasoning: text.slice(0, close).trim(), rest: text.slice(close + THINK_CLOSE.length).replace(/^\n+/, '') }
}

export function parseAnswer(text: string): Answer {
  const { reasoning, rest } = splitReasoning(text)
  const toolCalls: ToolCall[] = []
  let content = ''
  let from = 0
  for (let open = rest.indexOf(CALL_OPEN); open >= 0; open = rest.indexOf(CALL_OPEN, from)) {
    const start = open + CALL_OPEN.length
    const close = rest.indexOf(CALL_CLOSE, start)
    // The closing tag may be missing at the end: some models end their turn in its place.
    const end = close < 0 ? rest.length : close
    const next = close < 0 ? rest.length : close + CALL_CLOSE.length
    const calls = callsOf(rest.slice(start, end))
    if (calls) {
      toolCalls.push(...calls)
      content += rest.slice(from, open).trimEnd()
    } else content += rest.slice(from, next)
    from = calls ? skipSpace(rest, next) : next
  }
  return { content: content + rest.slice(from), reasoning, toolCalls }
}
