/** Compares two requests by what was said in them, however it is divided into messages. */
import { contentText } from '@instar/events'
import { isFields } from '@instar/dialects'
import type { SessionQuery } from './session-query.ts'

/** Of an earlier request: its parts, and those of them that are repeated. */
export type Overlap = { said: number; shared: number }

/** Compares the messages of earlier requests with those before the last answer. */
export const overlapWith = ({ messages, answers }: SessionQuery): ((request: readonly unknown[]) => Overlap) => {
  const here = partsOf(messages.slice(0, answers.at(-1)?.at))
  return (request) => {
    const said = partsOf(request)
    return { said: said.size, shared: said.intersection(here).size }
  }
}

/** User messages and tool results, part by part: agents move and drop parts but seldom rewrite them. */
export const partsOf = (messages: readonly unknown[]): Set<string> => {
  const parts = new Set<string>()
  for (const message of messages) {
    if (
      !isFields(message) ||
      message['role'] === 'system' ||
      message['role'] === 'developer' ||
      message['role'] === 'assistant'
    )
      continue
    const { content } = message
    for (const part of Array.isArray(content) ? content : [content]) {
      const said = contentText(typeof part === 'string' ? part : [part]).trim()
      if (said !== '') parts.add(`${String(message['role'])}:${said}`)
    }
  }
  return parts
}
