/** The items that a response answers, as a client that asks for them reads them: each with an id. */
import { integer, wrong, type Fields } from '../fields.ts'
import { inputOf } from './request.ts'

export type ItemPage = {
  object: 'list'
  data: Fields[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
}

const MOST = 100
const USUAL = 20

/** `mark`: of the turn; items that came without an id are named by it and their place. */
const withIds = (body: Fields, mark: string): Fields[] =>
  inputOf(body).map((item, at) => {
    const { id, type, role, content } = item
    const named = { id: typeof id === 'string' ? id : `item${mark}${at}`, type: type ?? 'message' }
    if (named.type !== 'message') return { ...item, ...named }
    const part =
      role === 'assistant'
        ? { type: 'output_text', text: content, annotations: [], logprobs: [] }
        : { type: 'input_text', text: content }
    return { ...named, role, status: 'completed', content: typeof content === 'string' ? [part] : (content ?? []) }
  })

/** `query`: as it stands in the URL. Throws `bad_request`. */
export const itemPage = (body: Fields, mark: string, query: Readonly<Record<string, unknown>>): ItemPage => {
  const { order = 'desc', after } = query
  if (order !== 'asc' && order !== 'desc') throw wrong('order', 'asc or desc')
  const limit =
    integer({ limit: query['limit'] === undefined ? null : Number(query['limit']) }, 'limit', 1, MOST) ?? USUAL
  const items = withIds(body, mark)
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
