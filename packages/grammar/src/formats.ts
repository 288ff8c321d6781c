import { unsupported } from './schema-errors.ts'

/** Patterns for `format`. Each matches a subset of the format, for example existing dates only. */

const DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))'
const DATE = `[0-9]{4}-${DAY}`
const TIME = '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])'
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?'
const BYTE = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
const SPAN = '(?:[1-9][0-9]{0,5}|0)'

const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: `P(?:${SPAN}W|${SPAN}D(?:T${SPAN}H)?|T${SPAN}[HMS])`,
  email: `[a-z0-9]{1,16}(?:[._+-][a-z0-9]{1,16}){0,2}@${LABEL}(?:\\.${LABEL}){0,2}\\.[a-z]{2,10}`,
  hostname: `${LABEL}(?:\\.${LABEL}){0,3}`,
  ipv4: `${BYTE}(?:\\.${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}',
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
  uri: `https?://${LABEL}(?:\\.${LABEL}){0,3}(?::[1-9][0-9]{0,3})?(?:/[A-Za-z0-9._~-]*)*(?:\\?[A-Za-z0-9._~=&-]*)?`,
}

/** Formats of JSON Schema that are not supported. */
const UNSUPPORTED = new Set([
  'iri',
  'iri-reference',
  'uri-reference',
  'uri-template',
  'idn-email',
  'idn-hostname',
  'json-pointer',
  'relative-json-pointer',
  'regex',
])

/**
 * The pattern of a format. Null for a custom format beside a `pattern`, which then applies alone. Throws `bad_request`
 * for an unsupported format.
 */
export function formatOf(name: string, hasPattern: boolean, where: string): string | null {
  const source = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined
  if (source !== undefined) return source
  if (hasPattern && !UNSUPPORTED.has(name)) return null
  throw unsupported(
    'format',
    where,
    `is only supported with the values ${Object.keys(FORMATS).join(', ')}, or beside a pattern`,
  )
}
