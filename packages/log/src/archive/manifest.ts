/**
 * The manifest of an archive, `manifest.json`: what the archive holds, and the digest of each object. It may come from
 * elsewhere, so it is checked before anything is read by it, and contains no name of a file: `objectName` gives each.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { MAX_OBJECT_BYTES } from './container.ts'

export const MANIFEST = 'manifest.json'
/** Enough for some 320,000 objects of some 210 bytes each here: 2.5 TB of full ones. */
export const MAX_MANIFEST_BYTES = 64 << 20
const MAX_PARTITIONS = 1024
const MAX_SCHEMAS = 1000
const MAX_SCHEMA_CHARACTERS = 1 << 20

const offset = z.int().min(0)
const digest = z.string().regex(/^[0-9a-f]{64}$/)

/**
 * `from`, `to`: the object holds every record of its partition with an offset from `from` up to `to`, exclusive. `first`,
 * `last`: the offsets of its first and last record. `bytes`: of the object.
 */
const objectOfVersion1 = z.strictObject({
  from: offset,
  to: offset,
  first: offset,
  last: offset,
  records: z.int().min(1),
  bytes: z.int().min(1).max(MAX_OBJECT_BYTES),
  sha256: digest,
})
/** `times`: the earliest and the latest of its records, ms since 1970; absent of an object that a build of version 1 wrote. */
const objectEntry = objectOfVersion1.extend({ times: z.tuple([z.int(), z.int()]).optional() })
/** Offsets of damaged records that a manifest lists per partition; the others are counted. */
export const MAX_DAMAGED_OFFSETS = 100
/**
 * Records that did not match their checksum when they were to be archived: in no object. `records`: how many; `offsets`: of
 * the first; `end`: the offset after the last.
 */
const damagedRecords = z.strictObject({
  records: z.int().min(1),
  offsets: z.array(offset).min(1).max(MAX_DAMAGED_OFFSETS),
  end: z.int().min(1),
})
/** `lastRecord`: the digest of the last record, by which a log is known again (`recordDigest`); null: none. */
const partitionForm = <Entry extends z.ZodType>(object: Entry) =>
  z.strictObject({ lastRecord: digest.nullable(), objects: z.array(object), damaged: damagedRecords.optional() })

const TOPIC_NAMES = TOPICS as [Topic, ...Topic[]]
const topicsForm = <Entry extends z.ZodType>(object: Entry) =>
  z.record(z.enum(TOPIC_NAMES), z.array(partitionForm(object)).min(1).max(MAX_PARTITIONS))
const manifestForm = z.strictObject({
  format: z.literal('instar-archive'),
  version: z.literal(2),
  /** When it was written, milliseconds since 1970. */
  at: z.int().min(0),
  /** False: a run was stopped before it reached the end that it had set out for. */
  complete: z.boolean(),
  /** As `EventLog.sequential` of the archived log. */
  sequential: z.boolean(),
  /** Every schema of the log: name, sha256 of the text, Avro JSON. */
  schemas: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z][\w.]{0,199}$/),
        sha256: digest,
        avro: z.string().max(MAX_SCHEMA_CHARACTERS),
      }),
    )
    .max(MAX_SCHEMAS),
  /** The partitions of each topic, in their order. */
  topics: topicsForm(objectEntry),
})
/** Read, and not written any more. */
const version1 = manifestForm.extend({ version: z.literal(1), topics: topicsForm(objectOfVersion1) })

export type ObjectEntry = z.infer<typeof objectEntry>
export type DamagedRecords = z.infer<typeof damagedRecords>
export type Manifest = z.infer<typeof manifestForm>

export const sha256 = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The name of an object, which ends with its digest: no two contents have one name. */
export const objectName = (
  topic: Topic,
  partition: number,
  { from, sha256 }: Pick<ObjectEntry, 'from' | 'sha256'>,
): string => `objects/${topic}/${partition}/${String(from).padStart(16, '0')}-${sha256}.avro`

/** The offset up to which a partition is archived, exclusive. Damaged records after the last object count. */
export const endOfPartition = ({ topics }: Manifest, topic: Topic, partition: number): number => {
  const { objects, damaged } = topics[topic][partition] ?? { objects: [] }
  return Math.max(objects.at(-1)?.to ?? 0, damaged?.end ?? 0)
}

/** Adds damaged records with higher offsets to those of a partition. */
export const addDamaged = (known: DamagedRecords | undefined, more: DamagedRecords): DamagedRecords => ({
  records: (known?.records ?? 0) + more.records,
  offsets: [...(known?.offsets ?? []), ...more.offsets].slice(0, MAX_DAMAGED_OFFSETS),
  end: more.end,
})

export const damaged = (address: string, name: string, what: string, cause?: unknown): InstarError =>
  new InstarError('archive_damaged', `${address}: ${name}: ${what}`, { archive: address, object: name }, { cause })

/** Throws `archive_damaged`. */
export const parseManifest = (bytes: Uint8Array, address: string): Manifest => {
  const fail = (what: string, cause?: unknown): never => {
    throw damaged(address, MANIFEST, what, cause)
  }
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    return fail('it is not JSON in UTF-8', cause)
  }
  const { checksum, ...stored } = (value ?? {}) as { checksum?: unknown; format?: unknown; version?: unknown }
  const isFirst = stored.version === 1
  if (stored.format === 'instar-archive' && !isFirst && stored.version !== 2)
    return fail(`it has version ${String(stored.version)}, and this build reads versions 1 and 2`)
  if (!isFirst && checksum !== sha256(JSON.stringify(stored))) return fail('it does not match its checksum')
  const parsed = isFirst ? version1.safeParse(value) : manifestForm.safeParse(stored)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    return fail(`${issue.path.join('.') || 'it'}: ${issue.message}`)
  }
  const manifest: Manifest = { ...parsed.data, version: 2 }
  const fault = faultOf(manifest)
  return fault === undefined ? manifest : fail(fault)
}

/** As it is stored: with the SHA-256 of what is before it as its last field. */
export const manifestText = (manifest: Manifest): string => {
  const text = JSON.stringify(manifest)
  return `${text.slice(0, -1)},"checksum":"${sha256(text)}"}\n`
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** What does not fit together in a manifest of the right form. */
const faultOf = (manifest: Manifest): string | undefined => {
  for (const { name, sha256: digest, avro } of manifest.schemas)
    if (sha256(avro) !== digest) return `the schema ${name} does not have its sha256`
  for (const { name, avro } of manifest.schemas) if (!isJson(avro)) return `the schema ${name} is not JSON`
  if (new Set(manifest.schemas.map(({ name }) => name)).size !== manifest.schemas.length)
    return 'a schema is listed twice'
  for (const topic of TOPICS) {
    let records = 0
    let end = 0
    for (const [partition, { lastRecord, objects, damaged }] of manifest.topics[topic].entries()) {
      if ((lastRecord === null) !== (objects.length === 0)) return `${topic} ${partition}: lastRecord does not fit`
      let at = 0
      let inPartition = 0
      for (const { from, to, first, last, records: count, times } of objects) {
        if (from !== at) return `${topic} ${partition}: offsets ${at} to ${from} are in no object`
        if (first < from || last < first || to !== last + 1 || count > last - first + 1)
          return `${topic} ${partition}: the offsets of the object at ${from} do not fit together`
        if (times && times[0] > times[1])
          return `${topic} ${partition}: the times of the object at ${from} do not fit together`
        at = to
        records += count
        inPartition += count
      }
      if (damaged) {
        const { offsets } = damaged
        inPartition += damaged.records
        if (
          offsets.length !== Math.min(damaged.records, MAX_DAMAGED_OFFSETS) ||
          offsets.some((each, i) => each >= damaged.end || each <= (offsets[i - 1] ?? -1)) ||
          inPartition > Math.max(at, damaged.end)
        )
          return `${topic} ${partition}: the damaged records do not fit together`
        records += damaged.records
      }
      end = Math.max(end, at, damaged?.end ?? 0)
    }
    if (manifest.sequential && manifest.complete && records !== end)
      return `${topic}: ${records} records are archived or damaged, and their offsets end at ${end}`
  }
  return undefined
}
