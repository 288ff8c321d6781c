/** What the page Learning reads, and the further pages of its tables of callers. */
import type { ReadModel } from '@instar/projections/read-model'
import { z } from 'zod'

/** Rows of a page of callers. */
const PAGE = 50

type Page = { rows: unknown[]; next: number | null }

const page = (rows: readonly unknown[], from: number): Page => ({
  rows: rows.slice(from, from + PAGE),
  next: rows.length > from + PAGE ? from + PAGE : null,
})

type Parts = {
  figures: Awaited<ReturnType<ReadModel['learning']>>
  versions: Awaited<ReturnType<ReadModel['versions']>>
  lineage: Awaited<ReturnType<ReadModel['lineage']>>
}

export const learningParts = async (model: ReadModel): Promise<Parts> => ({
  figures: await model.learning(),
  versions: await model.versions(),
  lineage: await model.lineage(),
})

export const learningOf = ({ figures: { subjects, keys, ...figures }, versions, lineage }: Parts): unknown => ({
  versions,
  ...lineage,
  ...figures,
  subjects: page(subjects, 0),
  keys: page(keys, 0),
})

/** `after`: `next` of the page before. */
export const callersQuery = z.strictObject({
  by: z.enum(['subject', 'key']),
  after: z.coerce.number().int().min(0).max(1e6).default(0),
})

export const callersOf = async (model: ReadModel, { by, after }: z.output<typeof callersQuery>): Promise<Page> => {
  const { subjects, keys } = await model.learning()
  return page(by === 'subject' ? subjects : keys, after)
}
