/** `GET /v1/responses/{id}/input_items`: the input items of a response, in pages. */
import { integer, wrong, type Fields } from '../fields.ts'
import { inputOf } from './request.ts'

export type ItemPage = {
  object: 'list'
  data: Fields[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
}

const MAX_LIMIT = 100
const DEFAULT_LIMIT = 20

/** The items with ids. An item without one gets `item`, the turn's part of a minted id (`turnPart`) and its index. */
const withIds = (body: Fields, turnPart: string): Fields[] =>
  inputOf(body).map((item, at) => {
    const { id, type, role, content } = item
    const named = { id: typeof id === 'string' ? id : `item${turnPart}${at}`, type: type ?? 'message' }
    if (named.type !== 'message') return { ...item, ...named }
    const part =
      role === 'assistant'
        ? { type: 'output_text', text: content, annotations: [], logprobs: [] }
        : { type: 'input_text', text: content }
    return { ...named, role, status: 'completed', content: typeof content === 'string' ? [part] : (content ?? []) }
  })

/** One page. `query`: `order` (`asc`, default `desc`), `limit` and `after` of the URL. Throws `bad_request`. */
export const itemPage = (body: Fields, turnPart: string, query: Readonly<Record<string, unknown>>): ItemPage => {
  const { order = 'desc', after } = query
  if (order !== 'asc' && order !== 'desc') throw wrong('order', 'asc or desc')
  const limit =
    integer({ limit: query['limit'] === undefined ? null : Number(query['limit']) }, 'limit', 1, MAX_LIMIT) ??
    DEFAULT_LIMIT
  const items = withIds(body, turnPart)
  if (order === 'desc') items.reverse()
  const from = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && from === 0) throw wrong('after', 'the id of an item of this response')
  const data = items.slice(from, from + limit)
  const idOf = (item: Fields | undefined): string | null => (item ? String(item['id']) : null)
  return {
    object: 'list',
    data,
    first_id: idOf(data[0]),
    last_id: idOf(data.at(-1)),
    has_more: from + limit < items.length,
  }
}
