/**
 * Parses the JSON of a `<tool_call>` block of Hermes and Qwen models: `{"name": …, "arguments": …}` or a list of them.
 * Arguments keep their original bytes, since re-serialized JSON would have other tokens.
 */
import type { Call } from '../answer.ts'

type Span = { from: number; to: number }
type FieldSpans = Map<string, Span>

/** The end offset of the JSON value that starts at `at`. `json` must be valid JSON without white space at `at`. */
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
  const tokens = /"(?:[^"\\]|\\.)*"|[{}[\]]/g
  tokens.lastIndex = at
  for (let token = tokens.exec(json); token; token = tokens.exec(json)) {
    if (token[0] === '{' || token[0] === '[') depth++
    else if (token[0] === '}' || token[0] === ']') depth--
    if (depth === 0) return tokens.lastIndex
  }
  return json.length
}

function skipSpace(json: string, at: number): number {
  let next = at
  while (next < json.length && /\s/.test(json[next] ?? '')) next++
  return next
}

/** The span of each key's value in the object at `at`; null if there is no object at `at`. */
function fieldsOf(json: string, at: number): FieldSpans | null {
  if (json[at] !== '{') return null
  const fields: FieldSpans = new Map()
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
  const argumentsSpan = fields?.get('arguments') ?? fields?.get('parameters')
  if (!name || json[name.from] !== '"') return null
  const raw = argumentsSpan ? json.slice(argumentsSpan.from, argumentsSpan.to) : '{}'
  const value: unknown = JSON.parse(json.slice(name.from, name.to))
  const inner: unknown = raw.startsWith('"') ? JSON.parse(raw) : raw
  return { name: String(value), arguments: String(inner) }
}

/** The calls of one block; null if the block is not JSON or contains anything else. */
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
