/** Read-only inspection of a schema registry. */
import { InstarError } from '@instar/events/errors'
import { answerOf, LEVEL, RegistryClient, type RegistryAccess, type RegistryAnswer } from './registry-client.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import type { SchemaRow } from './schema-rows.ts'

type SubjectFound = {
  subject: string
  /** The subject's own, else the registry's default; null where there is neither. */
  compatibility: string | null
  /** Our schemas that the registry does not hold under it. */
  missing: string[]
}

export type RegistryFound = {
  subjects: SubjectFound[]
  /** Numbers of the log that the registry does not know, and under which it has another schema. */
  numbers: Record<'lost' | 'other', { id: number; schema: string }[]>
  /** What it calls the moment, to the second, between two of our clock: ms since the epoch; null if it does not say. */
  clock: { before: number; theirs: number | null; after: number }
}

/**
 * `rows`: the schema ids on the log. Throws `log_unavailable` when the registry does not answer or is not one,
 * `registry_refused`.
 */
export const inspectRegistry = async (
  registry: string | RegistryAccess,
  schemas: Readonly<Record<string, string>>,
  now: () => number,
  rows: readonly SchemaRow[] = [],
): Promise<RegistryFound> => {
  const client = new RegistryClient(registry)
  const ask = (path: string, body?: unknown): Promise<RegistryAnswer> =>
    answerOf(client, () => client.ask(body === undefined ? 'GET' : 'POST', path, body))
  const before = now()
  const first = await ask('/subjects')
  const after = now()
  if (!Array.isArray(first.said))
    throw new InstarError('log_unavailable', `what answers at ${client.url} is no schema registry`, {
      registry: client.url,
    })
  const theirs = first.date === null ? NaN : Date.parse(first.date)
  const level = levelOf((await ask('/config')).said)
  const named = Map.groupBy(Object.keys(schemas), (name) => subjectOf(name).subject)
  const subjects: SubjectFound[] = []
  for (const [subject, names] of named) {
    const path = encodeURIComponent(subject)
    const own = levelOf((await ask(`/config/${path}`)).said)
    const held = await Promise.all(
      names.map(async (name) => (await ask(`/subjects/${path}`, { schema: canonical(schemas[name]!) })).status === 200),
    )
    subjects.push({ subject, compatibility: own ?? level, missing: names.filter((_, i) => !held[i]) })
  }
  const numbers: RegistryFound['numbers'] = { lost: [], other: [] }
  for (const { id, schema, avro } of rows) {
    const { status, said } = await ask(`/schemas/ids/${id}`)
    const held = (said as { schema?: unknown } | null)?.schema
    if (status !== 200) numbers.lost.push({ id, schema })
    else if (typeof held !== 'string' || fingerprintOf(held) !== fingerprintOf(avro)) numbers.other.push({ id, schema })
  }
  return { subjects, numbers, clock: { before, theirs: Number.isNaN(theirs) ? null : theirs, after } }
}

const levelOf = (said: unknown): string | null => {
  const level = (said as { compatibilityLevel?: unknown } | null)?.compatibilityLevel
  return typeof level === 'string' ? level : null
}

/** What `setup` sets for each subject. */
export const COMPATIBILITY_LEVEL: string = LEVEL
