/**
 * The tool calls of a block of markup as Hermes and Qwen write it: `{"name": …, "arguments": …}` or a list of them. Arguments
 * are kept as the model wrote them, byte for byte.
 */
import type { Call } from '../answer.ts'

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

function toolCall(json: string, at: number): Call | null {
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
export function callsIn(block: string): Call[] | null {
  const json = block.trim()
  try {
    JSON.parse(json)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
  const calls = (json.startsWith('[') ? elementStarts(json) : [0]).map((at) => toolCall(json, at))
  return calls.every((call): call is Call => call !== null) && calls.length > 0 ? calls : null
}
