/** References of a Responses body to records on the log: `previous_response_id` and `item_reference` items. */
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

/** The id of an item that has nothing but an id; null for other items. */
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
 * The body with all items of the conversation in `input`. `previous_response_id` becomes a non-enumerable property: the
 * response repeats it, and the stored body does not contain it.
 */
export const resolvedBody = (body: Fields, found: ReadonlyMap<string, Reference>): Fields => {
  const { previous_response_id: previous, ...rest } = body
  const before = typeof previous === 'string' ? found.get(previous) : undefined
  // A turn of another dialect cannot be continued: its conversation does not consist of items.
  if (before && before.dialect !== 'responses') throw unknownReference(body, String(previous))
  const items = new Map<Reference, ReadonlyMap<unknown, Fields>>()
  const itemsById = (reference: Reference): ReadonlyMap<unknown, Fields> => {
    const known = items.get(reference) ?? new Map(outputItems(reference).map((output) => [output['id'], output]))
    items.set(reference, known)
    return known
  }
  const input = inputOf(body).flatMap((item): Fields[] => {
    const id = referredTo(item)
    if (id === null) return [item]
    const reference = found.get(id)
    const output = reference && itemsById(reference).get(alphanumeric(id))
    return output ? [output] : []
  })
  const resolved = { ...rest, input: [...(before ? [...inputOf(before.body), ...outputItems(before)] : []), ...input] }
  return Object.defineProperty(resolved, 'previous_response_id', { value: previous })
}

const outputItems = ({ session, turn, choice, body }: Reference): Fields[] =>
  itemsOf({
    session,
    turn,
    shown: choice.shown,
    toolCallIds: choice.toolCallIds,
    shapes: isFields(body) ? shapesOf(body['tools']) : new Map(),
    sealed: true,
  })

/** Without the characters that an agent inserted. */
const alphanumeric = (id: string): string => id.replace(/[^A-Za-z0-9]/g, '')
