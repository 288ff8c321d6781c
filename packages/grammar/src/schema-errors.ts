/** Errors of schemas that are malformed, not supported or too large, and the limit of work. */
import { InstarError } from '@instar/events/errors'

export const unsupported = (keyword: string, where: string, why = 'is not supported'): InstarError =>
  new InstarError(
    'bad_request',
    `The keyword ${JSON.stringify(keyword.slice(0, 60))} at ${where.slice(0, 200)} of the schema ${why}.`,
    { keyword: keyword.slice(0, 60) },
  )

export const malformed = (where: string, should: string): InstarError =>
  new InstarError('bad_request', `${where.slice(0, 200)} of the schema must be ${should}.`)

/** Maximum work to compile a constraint; ten units take about a microsecond. */
const MAX_WORK = 2_000_000

export class Budget {
  private left = MAX_WORK

  /** Throws `bad_request` with `keyword` if the limit is exceeded. */
  spend(work: number, keyword: string): void {
    this.left -= work
    if (this.left < 0) throw tooLarge(keyword)
  }
}

/** The error for a schema that exceeds a limit of memory or time. */
export const tooLarge = (keyword: string): InstarError =>
  new InstarError(
    'bad_request',
    `The schema is too large: ${keyword} exceeds a limit of memory or time; simplify the schema.`,
    {
      keyword,
    },
  )
