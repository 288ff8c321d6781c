/** Looking at a schema registry without changing anything in it. */
import { InstarError } from '@instar/events/errors'
import { messageOf } from './client.ts'
import { canonical, LEVEL, subjectOf } from './schemas.ts'

export type SubjectFound = {
  subject: string
  /** The subject's own, else the registry's default; null where there is neither. */
  compatibility: string | null
  /** Our schemas that the registry does not hold under it. */
  missing: string[]
}

export type RegistryFound = {
  subjects: SubjectFound[]
  /** What it calls the moment, to the second, between two of our clock: ms since the epoch; null if it does not say. */
  clock: { before: number; theirs: number | null; after: number }
}

const TIMEOUT_MS = 5000

/** `registry`: the Confluent-compatible address. Throws `log_unavailable` when it does not answer as a registry does. */
export const inspectRegistry = async (registry: string, schemas: Readonly<Record<string, string>>, now: () => number): Promise<RegistryFound> => {
  const ask = async (path: string, body?: unknown): Promise<{ status: number; said: unknown; date: string | null }> => {
    try {
      const response = await fetch(`${registry.replace(/\/$/, '')}${path}`, {
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(body === undefined ? {} : { method: 'POST', headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' }, body: JSON.stringify(body) }),
      })
      const said: unknown = await response.json()
      if (response.status !== 200 && response.status !== 404) throw new Error(`HTTP ${response.status} to ${path}`)
      return { status: response.status, said, date: response.headers.get('date') }
    } catch (cause) {
      throw new InstarError('log_unavailable', `the schema registry at ${registry} does not answer: ${messageOf(cause)}${cause instanceof Error && cause.cause instanceof Error ? ` (${cause.cause.message})` : ''}`, { registry }, { cause })
    }
  }
  const before = now()
  const first = await ask('/subjects')
  const after = now()
  if (!Array.isArray(first.said)) throw new InstarError('log_unavailable', `what answers at ${registry} is no schema registry`, { registry })
  const theirs = first.date === null ? NaN : Date.parse(first.date)
  const level = levelOf((await ask('/config')).said)
  const named = Map.groupBy(Object.keys(schemas), (name) => subjectOf(name).subject)
  const subjects: SubjectFound[] = []
  for (const [subject, names] of named) {
    const path = encodeURIComponent(subject)
    const own = levelOf((await ask(`/config/${path}`)).said)
    const held = await Promise.all(names.map(async (name) => (await ask(`/subjects/${path}`, { schema: canonical(schemas[name]!).schema })).status === 200))
    subjects.push({ subject, compatibility: own ?? level, missing: names.filter((_, i) => !held[i]) })
  }
  return { subjects, clock: { before, theirs: Number.isNaN(theirs) ? null : theirs, after } }
}

const levelOf = (said: unknown): string | null => {
  const level = (said as { compatibilityLevel?: unknown } | null)?.compatibilityLevel
  return typeof level === 'string' ? level : null
}

/** What `registerSchemas` sets for each subject. */
export const COMPATIBILITY_LEVEL: string = LEVEL
