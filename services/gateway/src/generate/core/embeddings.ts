/** `/v1/embeddings`: the fields of a request that are forwarded to an engine with embeddings. */
import { integer, text, wrong, type Fields } from '@instar/dialects'

const MOST_INPUTS = 2048

const isIds = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id) && id >= 0)
const isInput = (value: unknown): boolean => (typeof value === 'string' && value !== '') || isIds(value)

/** `policy`: the policy's own name, which is replaced by `served`. Throws `bad_request`. */
export const embeddingRequest = (body: Fields, policy: string, served: string): Fields => {
  const { input } = body
  const list: unknown[] = isInput(input) ? [input] : Array.isArray(input) ? input : []
  if (list.length === 0 || list.length > MOST_INPUTS || !list.every(isInput))
    throw wrong(
      'input',
      `a text, a list of ids of tokens, or a list of up to ${MOST_INPUTS} of one of them, none of them empty`,
    )
  const format = text(body, 'encoding_format')
  if (format !== null && format !== 'float' && format !== 'base64') throw wrong('encoding_format', 'float or base64')
  const model = text(body, 'model') ?? policy
  const dimensions = integer(body, 'dimensions', 1, Number.MAX_SAFE_INTEGER)
  const user = text(body, 'user')
  return {
    model: model === policy ? served : model,
    input,
    ...(format === null ? {} : { encoding_format: format }),
    ...(dimensions === null ? {} : { dimensions }),
    ...(user === null ? {} : { user }),
  }
}
