/**
 * What a request body says. Read leniently: the gateway has already accepted it, so an odd shape yields less
 * text, never an error. Wrappers that agents put around a person's words are stripped here; the log keeps them.
 */
import { contentText } from '@instar/events'

export type Message = { role: string; text: string }

/** `messages` of Chat Completions and Anthropic bodies, `input` of Responses bodies, in order. */
export const messagesOf = (body: Uint8Array): Message[] => {
  const request = parsed(body)
  const list = request.messages ?? request.input
  if (typeof list === 'string') return [{ role: 'user', text: list }]
  if (!Array.isArray(list)) return []
  return list.map((one: unknown) => {
    const message: Record<string, unknown> = isRecord(one) ? one : {}
    const role = typeof message.role === 'string' ? message.role : message.type === 'function_call_output' ? 'tool' : ''
    return { role, text: contentText(message.content ?? message.output) }
  })
}

/** What a person and what tools said in messages `from` to the end, wrappers stripped, '' for nothing. */
export const saidSince = (messages: readonly Message[], from: number): { user: string; tools: string } => {
  const fresh = messages.slice(from)
  const of = (role: string): string => fresh.filter((m) => m.role === role).map((m) => stripWrappers(m.text)).filter((text) => text !== '').join('\n')
  return { user: of('user'), tools: of('tool') }
}

/** The person's last words; '' if there are none. */
export const lastRequest = (messages: readonly Message[]): string =>
  messages.filter((m) => m.role === 'user').map((m) => stripWrappers(m.text)).findLast((text) => text !== '') ?? ''

const BLOCKS = [
  /<system-reminder>[\s\S]*?(?:<\/system-reminder>|$)/g,
  /<environment_context>[\s\S]*?(?:<\/environment_context>|$)/g,
  /<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>[\s\S]*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|$)/g,
]
/** `[Sat 2026-11-21 04:09 UTC] ` in front of what a person typed. */
const DATED = /^\s*\[(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? [^\]\n]{4,40}\]\s*/i

export const stripWrappers = (text: string): string => {
  let stripped = text
  for (const block of BLOCKS) stripped = stripped.replace(block, '')
  stripped = stripped.replace(DATED, '').trim()
  const quoted = /^"([^"]*)"$/.exec(stripped)
  return quoted?.[1] !== undefined ? quoted[1].trim() : stripped
}

const isRecord = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === 'object' && !Array.isArray(value)

const parsed = (body: Uint8Array): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body))
    return isRecord(value) ? value : {}
  } catch (error) {
    if (error instanceof SyntaxError) return {}
    throw error
  }
}
