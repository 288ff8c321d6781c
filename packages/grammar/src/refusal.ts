/** Errors for schemas that are malformed, not supported or too large. */
import { InstarError } from '@instar/events/errors'

export const unsupported = (keyword: string, where: string, why = 'is not supported'): InstarError =>
  new InstarError(
    'bad_request',
    `The keyword ${JSON.stringify(keyword.slice(0, 60))} at ${where.slice(0, 200)} of the schema ${why}.`,
    { keyword: keyword.slice(0, 60) },
  )

export const malformed = (where: string, should: string): InstarError =>
  new InstarError('bad_request', `${where.slice(0, 200)} of the schema must be ${should}.`)

/** Limit of work for compiling one constraint: about a microsecond for ten units. */
const WORK = 2_000_000

export class Budget {
  private left = WORK

  /** Throws `bad_request` naming `keyword` when the limit is passed. */
  spend(work: number, keyword: string): void {
    this.left -= work
    if (this.left < 0) throw tooLarge(keyword)
  }
}

/** The schema needs more memory or time than its limit. */
export const tooLarge = (keyword: string): InstarError =>
  new InstarError('bad_request', `The schema is too large: ${keyword} asks for more than is followed here.`, {
    keyword,
  })
