/** Parameters of the dashboard's requests, checked. */
import { InstarError } from '@instar/events'
import { AGENT_NAMES } from '@instar/agents'
import { UNKNOWN_AGENT } from '@instar/projections/read-model'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { BEGINNINGS } from './texts.ts'

/** PostgreSQL has no texts with NUL. */
export const short = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/)
export const filter = z.strictObject({
  subject: short.optional(),
  key: short.optional(),
  version: z.coerce.number().int().min(-1).max(1e9).optional(),
  dialect: short.optional(),
  source: short.optional(),
  agent: z.enum([...AGENT_NAMES, UNKNOWN_AGENT]).optional(),
  reward: z.enum(['positive', 'negative', 'none']).optional(),
  reason: short.optional(),
  id: short.optional(),
})
export const searched = z.strictObject({
  text: short,
  at: z.coerce.number().int().min(0).max(1e15).optional(),
  after: short.optional(),
})
/** Where an older page of the gateway's index begins. */
export const older = searched.omit({ text: true })
/** `session` once or several times. */
export const named = z.strictObject({
  session: z.preprocess((one) => (typeof one === 'string' ? [one] : one), z.array(short).min(1).max(BEGINNINGS)),
})
const moment = z.iso.datetime().regex(/^(?!0000)/)
/** `until`: `next` of the rows before. */
export const versionsQuery = z.strictObject({ until: moment.optional() })
export const batchQuery = z.strictObject({ after: z.coerce.number().int().min(0).max(1e6).default(0) })
const cursor = z.object({ at: moment, after: short })

/** Where a page begins, from `at` and `after` of the query. Throws `bad_request`. */
export const cursorOf = ({ at, after }: Record<string, unknown>): { at: string; id: string } | null => {
  if (at === undefined && after === undefined) return null
  const parsed = parsedBy(cursor, { at, after })
  return { at: parsed.at, id: parsed.after }
}

export const parsedBy = <T extends z.ZodType>(schema: T, value: unknown): z.output<T> => {
  const { data, error } = schema.safeParse(value)
  if (!error) return data
  const [issue] = error.issues
  const field = String(issue?.path[0] ?? '')
  throw new InstarError('bad_request', `${field || 'The query'}: ${issue?.message ?? 'is not valid'}`, { field })
}

export const paramsOf = (request: FastifyRequest): Record<string, string> => request.params as Record<string, string>

/** PostgreSQL's integers end below what a path may name. */
export const numberOf = (request: FastifyRequest): number => {
  const version = Number(paramsOf(request)['version'])
  return Number.isInteger(version) && Math.abs(version) < 2 ** 31 ? version : -1
}

const idParam = z.object({ id: z.string().regex(/^[^\0]*$/) })
export const idOf = (request: FastifyRequest): string => parsedBy(idParam, paramsOf(request)).id
