/** Recovers the messages of a token prompt from the control tokens of chat templates. */
import { parseAnswer, type Message } from '@instar/dialects'

const HEADED = /^\s*(system|developer|user|assistant|model|tool|ipython)(?:\n+([^]*))?$/
const ROLES: Readonly<Record<string, string>> = { model: 'assistant', ipython: 'tool' }

/** Returns one user message if no structure is recognised. `decode` returns '' for a single control token. */
export const messagesOfPrompt = (ids: readonly number[], decode: (ids: readonly number[]) => string): Message[] => {
  const found: { role: string; text: string }[] = []
  for (const piece of pieces(ids, decode)) {
    const headed = HEADED.exec(piece)
    const open = found.at(-1)
    if (headed) found.push({ role: ROLES[headed[1]!] ?? headed[1]!, text: headed[2] ?? '' })
    else if (open && open.text === '') open.text = piece.replace(/^\n+/, '')
    else if (piece.trim() !== '') found.push({ role: 'user', text: piece })
  }
  // The header of the answer that follows the prompt.
  if (found.at(-1)?.role === 'assistant' && found.at(-1)?.text.trim() === '') found.pop()
  if (found.length === 0) return [{ role: 'user', content: decode(ids) }]
  return found.map(({ role, text }, i) => messageOf(role, text, i))
}

/** The text between control tokens. */
const pieces = (ids: readonly number[], decode: (ids: readonly number[]) => string): string[] => {
  const runs: number[][] = [[]]
  for (const id of ids) {
    if (decode([id]) === '') runs.push([])
    else runs.at(-1)!.push(id)
  }
  return runs.filter((run) => run.length > 0).map(decode)
}

const messageOf = (role: string, text: string, at: number): Message => {
  if (role !== 'assistant') return { role, content: text, ...(role === 'tool' ? { tool_call_id: `call_${at}` } : {}) }
  const { content, reasoning, toolCalls } = parseAnswer(text)
  return {
    role,
    content: content === '' && toolCalls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map((call, i) => ({ id: `call_${at}_${i}`, type: 'function', function: call })) }),
  }
}
