/** The settings of a section, derived from the zod schema of the service: names, bounds, defaults, descriptions. */
import { z } from 'zod'

export const SECTION_NAMES = ['training', 'gate', 'judge', 'prices'] as const
export type SectionName = (typeof SECTION_NAMES)[number]

/** How a service's schema becomes a section of the settings file. Paths are dotted paths of the schema. */
export type Section<S extends z.ZodType = z.ZodType> = {
  name: SectionName
  schema: S
  /** Objects whose fields stand directly in the section. */
  lifted?: readonly string[]
  /** Fields that are not settings. */
  hidden?: readonly string[]
  /** The setting's name by the schema's path. */
  renamed?: Readonly<Record<string, string>>
  /** Fields that take the value of a setting of another section, by its full name. */
  borrowed?: Readonly<Record<string, string>>
  /** Fields that are read from the environment only: the variable by path. */
  secrets?: Readonly<Record<string, string>>
  /** Addresses, which are shown without user, password and query. */
  addresses?: readonly string[]
}

/** `name`: as in the file, with its section. `path`: of the schema. `default` undefined: there is none. */
export type Field = {
  name: string
  path: readonly string[]
  expected: string
  default: unknown
  description: string
}

type JsonSchema = {
  type?: string | readonly string[]
  properties?: Record<string, JsonSchema>
  anyOf?: readonly JsonSchema[]
  enum?: readonly unknown[]
  const?: unknown
  items?: JsonSchema
  format?: string
  default?: unknown
  description?: string
  minimum?: number
  exclusiveMinimum?: number
  maximum?: number
  exclusiveMaximum?: number
  minLength?: number
}

/** Groups of fields may be null, as a judge that is not configured. */
const groupOf = (node: JsonSchema): Record<string, JsonSchema> | null =>
  node.properties ?? node.anyOf?.find(({ properties }) => properties)?.properties ?? null

const bound = (value: number | undefined): number | null =>
  value === undefined || Math.abs(value) >= Number.MAX_SAFE_INTEGER ? null : value

const numberText = (node: JsonSchema, kind: string): string => {
  const whole = node.type === 'integer'
  const over = bound(node.exclusiveMinimum)
  const [min, max] = [whole && over !== null ? over + 1 : bound(node.minimum), bound(node.maximum)]
  const below = bound(node.exclusiveMaximum)
  const parts = [
    min === null ? (over === null ? null : `above ${over}`) : max === null ? `of at least ${min}` : `from ${min}`,
    max === null ? null : min === null ? `${over === null ? '' : 'and '}at most ${max}` : `to ${max}`,
    below === null ? null : `${min === null && over === null ? '' : 'and '}below ${below}`,
  ].filter((part) => part !== null)
  return [kind, ...parts].join(' ')
}

/** What a value must be, in words: `a whole number from 1 to 512`, `"hybrid", "binary" or "opd"`, `text or null`. */
const expectedText = (node: JsonSchema): string => {
  if (node.anyOf) return node.anyOf.map(expectedText).join(' or ')
  if (Array.isArray(node.type)) return node.type.map((type: string) => expectedText({ ...node, type })).join(' or ')
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum) {
    const values = node.enum.map((value) => JSON.stringify(value))
    return values.length === 1 ? values[0]! : `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`
  }
  switch (node.type) {
    case 'integer':
      return numberText(node, 'a whole number')
    case 'number':
      return numberText(node, 'a number')
    case 'array':
      return `a list of ${node.items ? expectedText(node.items) : 'values'}`
    case 'string':
      return node.format === 'uri' ? 'a URL' : node.minLength === undefined ? 'text' : 'text that is not empty'
    case 'boolean':
      return 'true or false'
    case 'null':
      return 'null'
    default:
      return 'a value'
  }
}

/** The fields of a section in the order of the schema. */
export const fieldsOf = (section: Section): Field[] => {
  const { name, schema, lifted = [], hidden = [], renamed = {}, borrowed = {}, secrets = {} } = section
  const fields: Field[] = []
  const walk = (properties: Record<string, JsonSchema>, path: readonly string[], names: readonly string[]): void => {
    for (const [key, node] of Object.entries(properties)) {
      const at = [...path, key]
      const dotted = at.join('.')
      if (hidden.includes(dotted) || dotted in borrowed || dotted in secrets) continue
      const own = lifted.includes(dotted) ? names : [...names, renamed[dotted] ?? key]
      const group = groupOf(node)
      if (group) walk(group, at, own)
      else
        fields.push({
          name: own.join('.'),
          path: at,
          expected: expectedText(node),
          default: node.default,
          description: node.description ?? '',
        })
    }
  }
  walk(groupOf(z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as JsonSchema) ?? {}, [], [name])
  return fields
}
