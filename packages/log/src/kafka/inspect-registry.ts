/** Read-only inspection of a schema registry. */
import { InstarError } from '@instar/events/errors'
import { LEVEL, orUnavailable, RegistryClient, type RegistryAccess, type RegistryResponse } from './registry-client.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import type { SchemaRow } from './schema-rows.ts'

type SubjectState = {
  subject: string
  /** The subject's level, else the registry's default; null if neither is set. */
  compatibility: string | null
  /** Schemas of this build that the registry lacks under the subject. */
  missing: string[]
}

export type RegistryState = {
  subjects: SubjectState[]
  /** Schema ids of the log that the registry lacks (`lost`), or that refer to another schema there (`other`). */
  numbers: Record<'lost' | 'other', { id: number; schema: string }[]>
  /**
   * The registry's time (header `Date`, precise to a second; null without it) between two readings of the local clock,
   * in milliseconds since 1970.
   */
  clock: { before: number; remote: number | null; after: number }
}

/**
 * Inspects a registry without changing it. `rows`: the schema ids on the log. Throws `log_unavailable` if the server
 * does not respond or is not a schema registry, `registry_refused`.
 */
export const inspectRegistry = async (
  registry: string | RegistryAccess,
  schemas: Readonly<Record<string, string>>,
  now: () => number,
  rows: readonly SchemaRow[] = [],
): Promise<RegistryState> => {
  const client = new RegistryClient(registry)
  const request = (path: string, body?: unknown): Promise<RegistryResponse> =>
    orUnavailable(client, () => client.request(body === undefined ? 'GET' : 'POST', path, body))
  const before = now()
  const first = await request('/subjects')
  const after = now()
  if (!Array.isArray(first.body))
    throw new InstarError('log_unavailable', `the server at ${client.url} is not a schema registry`, {
      registry: client.url,
    })
  const remote = first.date === null ? NaN : Date.parse(first.date)
  const level = levelOf((await request('/config')).body)
  const bySubject = Map.groupBy(Object.keys(schemas), (name) => subjectOf(name).subject)
  const subjects: SubjectState[] = []
  for (const [subject, names] of bySubject) {
    const path = encodeURIComponent(subject)
    const own = levelOf((await request(`/config/${path}`)).body)
    const hasSchema = await Promise.all(
      names.map(
        async (name) => (await request(`/subjects/${path}`, { schema: canonical(schemas[name]!) })).status === 200,
      ),
    )
    subjects.push({ subject, compatibility: own ?? level, missing: names.filter((_, i) => !hasSchema[i]) })
  }
  const numbers: RegistryState['numbers'] = { lost: [], other: [] }
  for (const { id, schema, avro } of rows) {
    const { status, body } = await request(`/schemas/ids/${id}`)
    const hasSchema = (body as { schema?: unknown } | null)?.schema
    if (status !== 200) numbers.lost.push({ id, schema })
    else if (typeof hasSchema !== 'string' || fingerprintOf(hasSchema) !== fingerprintOf(avro))
      numbers.other.push({ id, schema })
  }
  return { subjects, numbers, clock: { before, remote: Number.isNaN(remote) ? null : remote, after } }
}

const levelOf = (body: unknown): string | null => {
  const level = (body as { compatibilityLevel?: unknown } | null)?.compatibilityLevel
  return typeof level === 'string' ? level : null
}

/** The compatibility level that `setup` sets for each subject. */
export const COMPATIBILITY_LEVEL: string = LEVEL
