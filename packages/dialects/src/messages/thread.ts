/**
 * Message threads. `thread: {type: "continue"}` refers to the conversation of an earlier response, and the request
 * contains the new messages only. `{type: "create"}` has no effect, since every turn is on the log. The error codes
 * make Anthropic's clients repeat the request with the whole conversation.
 */
import { InstarError } from '@instar/events/errors'
import type { Reference } from '../dialect.ts'
import { fieldsOf, wrong, type Fields } from '../fields.ts'
import { blocksOf } from './answer.ts'

/** The id of the response to continue; null if the body contains the whole conversation. */
const previousOf = (body: Fields): string | null => {
  const { thread } = body
  if (thread === undefined || thread === null) return null
  const { type, previous_message_id: previous } = fieldsOf(thread, 'thread')
  if (type === 'create') return null
  if (type !== 'continue')
    throw new InstarError(
      'bad_request',
      'thread.type must be create or continue; send the whole conversation without thread.',
      { field: 'thread', clientDetails: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
    )
  if (typeof previous !== 'string') throw wrong('thread.previous_message_id', 'the id of a message of this gateway')
  return previous
}

export const threadReferences = (body: Fields): string[] => {
  const previous = previousOf(body)
  return previous === null ? [] : [previous]
}

export const unknownThread = (_body: Fields, id: string): InstarError =>
  new InstarError(
    'unknown_turn',
    `The thread cannot continue: no message ${JSON.stringify(id.slice(0, 100))} is known; send the whole conversation.`,
    { field: 'thread.previous_message_id', clientDetails: { error_code: 'thread_not_found' } },
  )

/**
 * The body with the whole conversation. `system` and `tools` of the earlier request apply unless the body has its own.
 */
export const continuedBody = (body: Fields, found: ReadonlyMap<string, Reference>): Fields => {
  const previous = previousOf(body)
  const before = previous === null ? undefined : found.get(previous)
  if (previous === null || !before) return body
  const earlier = before.body['messages']
  // Messages of another dialect have another format.
  if (before.dialect !== 'messages' || !Array.isArray(earlier)) throw unknownThread(body, previous)
  const { thread: _, system, tools, messages, ...rest } = body
  const merged = { system: system ?? before.body['system'], tools: tools ?? before.body['tools'] }
  const answer = { role: 'assistant', id: previous, content: blocksOf(before, before.choice) }
  return {
    ...rest,
    ...(merged.system === undefined ? {} : { system: merged.system }),
    ...(merged.tools === undefined ? {} : { tools: merged.tools }),
    messages: [
      ...(earlier as unknown[]),
      answer,
      ...(Array.isArray(messages)
        ? (messages as unknown[])
        : messages === undefined || messages === null
          ? []
          : [messages]),
    ],
  }
}
