/** Ids that stand for something on the log: `previous_response_id`, and items by `item_reference`. */
import { InstarError } from '@instar/events/errors'
import type { Reference } from '../dialect.ts'
import { unknownId } from '../faults.ts'
import { isFields, text, type Fields } from '../fields.ts'
import { itemsOf } from './items.ts'
import { inputOf } from './request.ts'
import { shapesOf } from './tools.ts'

export const referencesOf = (body: Fields): string[] => {
  const previous = text(body, 'previous_response_id')
  return [...(previous === null ? [] : [previous]), ...inputOf(body).flatMap((item) => referredTo(item) ?? [])]
}

/** What a client sends of an item that the server is to know: its id alone. */
const referredTo = (item: Fields): string | null =>
  (item['type'] === 'item_reference' || (item['type'] === undefined && item['role'] === undefined)) &&
  typeof item['id'] === 'string'
    ? item['id']
    : null

export const unknownReference = (body: Fields, id: string): InstarError =>
  id === body['previous_response_id']
    ? new InstarError(
        'previous_response_not_found',
        `Previous response with id ${JSON.stringify(id.slice(0, 100))} not found.`,
        { field: 'previous_response_id' },
      )
    : unknownId(id, 'input')

/**
 * The body as if everything had been sent. The answer names what it goes on from: that can be read of the body, and is
 * not written with it.
 */
export const resolvedBody = (body: Fields, found: ReadonlyMap<string, Reference>): Fields => {
  const { previous_response_id: previous, ...rest } = body
  const before = typeof previous === 'string' ? found.get(previous) : undefined
  // A turn of another dialect cannot be gone on from as a response: its conversation is not made of items.
  if (before && before.dialect !== 'responses') throw unknownReference(body, String(previous))
  const own = inputOf(body).flatMap((item): Fields[] => {
    const id = referredTo(item)
    if (id === null) return [item]
    const reference = found.get(id)
    return reference ? saidIn(reference).filter((one) => sameId(one['id'], id)) : []
  })
  const resolved = { ...rest, input: [...(before ? [...inputOf(before.body), ...saidIn(before)] : []), ...own] }
  return Object.defineProperty(resolved, 'previous_response_id', { value: previous })
}

const saidIn = ({ session, turn, choice, body }: Reference): Fields[] =>
  itemsOf({
    session,
    turn,
    shown: choice.shown,
    toolCallIds: choice.toolCallIds,
    shapes: isFields(body) ? shapesOf(body['tools']) : new Map(),
    sealed: true,
  })

const sameId = (a: unknown, b: string): boolean => typeof a === 'string' && a === b.replace(/[^A-Za-z0-9]/g, '')
