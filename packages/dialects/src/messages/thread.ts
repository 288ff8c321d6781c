/**
 * Message threads: `{type: "create"}` says nothing, since every turn is on the log; `{type: "continue"}` sends what is new, and
 * stands for the conversation that the response it names ended. Error codes are those by which Anthropic's clients send everything again.
 */
import { InstarError } from '@instar/events/errors'
import type { Reference } from '../dialect.ts'
import { fieldsOf, wrong, type Fields } from '../fields.ts'
import { blocksOf } from './answer.ts'

/** The response that is gone on from; null where everything is sent. */
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
    `There is no message ${JSON.stringify(id.slice(0, 100))} here that a thread could go on from; send the whole conversation.`,
    { field: 'thread.previous_message_id', clientDetails: { error_code: 'thread_not_found' } },
  )

/**
 * The body as if everything had been sent. System text and tools are the thread's own, unless the request brings
 * others.
 */
export const continuedBody = (body: Fields, found: ReadonlyMap<string, Reference>): Fields => {
  const previous = previousOf(body)
  const before = previous === null ? undefined : found.get(previous)
  if (previous === null || !before) return body
  const said = before.body['messages']
  // The messages of another dialect are of another shape.
  if (before.dialect !== 'messages' || !Array.isArray(said)) throw unknownThread(body, previous)
  const { thread: _, system, tools, messages, ...rest } = body
  const kept = { system: system ?? before.body['system'], tools: tools ?? before.body['tools'] }
  const answer = { role: 'assistant', id: previous, content: blocksOf(before, before.choice) }
  return {
    ...rest,
    ...(kept.system === undefined ? {} : { system: kept.system }),
    ...(kept.tools === undefined ? {} : { tools: kept.tools }),
    messages: [
      ...(said as unknown[]),
      answer,
      ...(Array.isArray(messages)
        ? (messages as unknown[])
        : messages === undefined || messages === null
          ? []
          : [messages]),
    ],
  }
}
