/** The rows of reactions/*.jsonl: what they are, and a digest of all. */
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { FEATURES_VERSION, type Reaction } from '../../src/core/reactions/features.ts'
import { WISHES, type Label, type Wish } from '../../src/core/reactions/model.ts'

const row = z
  .strictObject({
    ctx: z.int().nonnegative(),
    request: z.string(),
    answer: z.string(),
    next: z.strictObject({
      user: z.string(),
      tools: z.array(z.strictObject({ name: z.string(), content: z.string() })),
    }),
    label: z.union([z.literal(1), z.literal(-1), z.literal(0)]),
    wish: z.enum(WISHES).nullable(),
    lang: z.string().min(2),
  })
  .refine(({ label, wish }) => (wish !== null) === (label === -1), 'a row has a wish if and only if its label is -1')
  .refine(({ next }) => next.user !== '' || next.tools.length > 0, 'next is empty')

/**
 * `weight`: of a row that was derived from others, less than 1. `author`: who wrote it; files named after a language are of
 * one author, every other file is of an author of its own.
 */
export type Row = z.infer<typeof row> & { weight: number; author: string }

/** Whoever wrote the rows had read neither other rows nor the judge: what it shows on them it shows on strangers. */
export const isStranger = (author: string): boolean => author.startsWith('fresh-')

const authorOf = (file: string): string => (/^[a-z]{2}\.jsonl$/u.test(file) ? 'languages' : file.replace('.jsonl', ''))

/** Raise it with every change of the recipe that the settings do not show. */
const RECIPE_VERSION = 3

export const FOLDER = join(import.meta.dirname, '..')

/** Throws with file and line for a row that is not as documented. */
export const rowsOf = (text: string, file: string): Row[] =>
  text.split('\n').flatMap((line, i) => {
    if (line === '') return []
    const read = row.safeParse(JSON.parse(line))
    if (!read.success) throw new Error(`${file}:${i + 1}: ${z.prettifyError(read.error)}`)
    return [{ ...read.data, weight: 1, author: authorOf(file) }]
  })

type Data = { rows: Row[]; digest: string }

/** Files in the order of their names. `digest`: of their bytes and of the versions of recipe and features. */
export const readData = (folder = FOLDER): Data => {
  const files = globSync('*.jsonl', { cwd: folder }).toSorted()
  const digest = createHash('sha256').update(JSON.stringify([RECIPE_VERSION, FEATURES_VERSION]))
  const rows = files.flatMap((file) => {
    const text = readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n')
    digest.update(`\0${basename(file)}\0${text}`)
    return rowsOf(text, file)
  })
  return { rows, digest: digest.digest('hex') }
}

export const reactionOf = ({ request, answer, next: { user, tools } }: Row): Reaction => ({
  request,
  answer,
  user,
  tools: tools.map(({ content }) => content).join('\n'),
})

export type { Label, Wish }
