/** The supported keywords of JSON Schema; resolution of `$ref` and `allOf` by merging schemas. */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { malformed, tooLarge, unsupported, type Budget } from './schema-errors.ts'

export type Schema = JsonObject

export const isSchema = isJsonObject

/** Annotations, which do not constrain values. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'discriminator',
  'contentEncoding',
  'contentMediaType',
])
const SUPPORTED = new Set([
  '$ref',
  'type',
  'enum',
  'const',
  'anyOf',
  'oneOf',
  'allOf',
  'properties',
  'required',
  'additionalProperties',
  'propertyNames',
  'minProperties',
  'maxProperties',
  'items',
  'prefixItems',
  'additionalItems',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
])
export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const
export type Type = (typeof TYPES)[number]

/** The type that a keyword constrains. A schema without `type` allows the types that its keywords constrain. */
export const TYPE_OF_KEYWORD: Readonly<Record<string, Type>> = {
  properties: 'object',
  required: 'object',
  additionalProperties: 'object',
  propertyNames: 'object',
  minProperties: 'object',
  maxProperties: 'object',
  items: 'array',
  prefixItems: 'array',
  additionalItems: 'array',
  minItems: 'array',
  maxItems: 'array',
  uniqueItems: 'array',
  minLength: 'string',
  maxLength: 'string',
  pattern: 'string',
  format: 'string',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'number',
  exclusiveMaximum: 'number',
  multipleOf: 'number',
}

/** The schema without annotations. Throws `bad_request` for an unsupported keyword. */
export function assertionsOf(schema: Schema, where: string): Schema {
  const entries = Object.entries(schema).filter(([keyword]) => !ANNOTATIONS.has(keyword) && !keyword.startsWith('x-'))
  for (const [keyword] of entries) if (!SUPPORTED.has(keyword)) throw unsupported(keyword, where)
  return Object.fromEntries(entries)
}

/** Resolves a `$ref` with a JSON pointer (`#/…`, RFC 6901). */
export function resolvePointer(root: unknown, ref: unknown, where: string): unknown {
  if (typeof ref !== 'string' || !/^#(\/|$)/.test(ref))
    throw unsupported('$ref', where, 'must refer to a part of the same schema (#/…)')
  let at: unknown = root
  for (const step of ref.split('/').slice(1)) {
    const name = decodeStep(step, where).replaceAll('~1', '/').replaceAll('~0', '~')
    at = Array.isArray(at) ? at[Number(name)] : isSchema(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  if (at === undefined) throw unsupported('$ref', where, `refers to a part that does not exist: ${ref.slice(0, 100)}`)
  return at
}

const decodeStep = (step: string, where: string): string => {
  try {
    return decodeURIComponent(step)
  } catch (error) {
    if (error instanceof URIError)
      throw unsupported('$ref', where, `refers to a part that does not exist: ${step.slice(0, 100)}`)
    throw error
  }
}

const MAX_MERGED = 64

/** Work of `Budget`: of a flattened schema, each of its keywords, a character of its `$ref`, and a merged property. */
const SCHEMA_WORK = 50
const KEYWORD_WORK = 2
const POINTER_WORK = 2
const ENTRY_WORK = 40

/** Merges a schema with its `$ref` and `allOf`. False: no value is allowed. */
export function flatten(schema: unknown, root: unknown, where: string, budget: Budget, depth = 0): Schema | false {
  budget.spend(SCHEMA_WORK, '$ref')
  if (depth > MAX_MERGED) throw tooLarge('$ref')
  if (schema === true) return {}
  if (schema === false) return false
  if (!isSchema(schema)) throw malformed(where, 'an object, true or false')
  budget.spend(workOf(schema), 'allOf')
  const { $ref, allOf, ...own } = assertionsOf(schema, where)
  const parts: unknown[] = [own]
  if ($ref !== undefined) parts.push(resolvePointer(root, $ref, where))
  if (allOf !== undefined) parts.push(...nonEmptyList(allOf, `${where}/allOf`))
  if (parts.length === 1) return own
  let all: Schema = {}
  for (const part of parts) {
    const flat = part === own ? own : flatten(part, root, where, budget, depth + 1)
    if (flat === false) return false
    all = merge(all, flat, where, budget)
  }
  return all
}

export function nonEmptyList(value: unknown, where: string): readonly unknown[] {
  if (!Array.isArray(value) || value.length === 0) throw malformed(where, 'a non-empty list')
  return value
}

export const typesOf = (value: unknown, where: string): readonly Type[] => {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  return list.length > TYPES.length
    ? throwInvalidType(where)
    : list.map((name) => TYPES.find((type) => type === name) ?? throwInvalidType(where))
}

const throwInvalidType = (where: string): never => {
  throw malformed(`${where}/type`, `one of ${TYPES.join(', ')}, or a list of them`)
}

const STRICTER_BOUND: Readonly<Record<string, (a: number, b: number) => number>> = {
  minimum: Math.max,
  exclusiveMinimum: Math.max,
  minLength: Math.max,
  minItems: Math.max,
  minProperties: Math.max,
  maximum: Math.min,
  exclusiveMaximum: Math.min,
  maxLength: Math.min,
  maxItems: Math.min,
  maxProperties: Math.min,
}

/** Work of reading the keywords of a schema once, and its reference. */
const workOf = (schema: Schema): number => {
  const { $ref } = schema
  return KEYWORD_WORK * Object.keys(schema).length + (typeof $ref === 'string' ? POINTER_WORK * $ref.length : 0)
}

/**
 * Work of merging a keyword once: of each property, and of each value of a list. A schema with n parts is merged n
 * times, each time with everything that was merged before.
 */
const mergeWork = (value: unknown): number => {
  if (Array.isArray(value)) return ENTRY_WORK + value.reduce<number>((sum, one) => sum + textWork(one), 0)
  return isSchema(value) ? ENTRY_WORK * (1 + Object.keys(value).length) : textWork(value)
}

/** Values of lists are compared as JSON. */
const textWork = (value: unknown): number =>
  ENTRY_WORK / 4 +
  (typeof value === 'string' ? value.length / 8 : typeof value === 'object' ? JSON.stringify(value).length / 8 : 0)

/** The intersection of two schemas. Throws `bad_request` if supported keywords cannot express it. */
export function merge(a: Schema, b: Schema, where: string, budget: Budget): Schema {
  for (const schema of [a, b]) for (const value of Object.values(schema)) budget.spend(mergeWork(value), 'allOf')
  checkAdditionalProperties(a, b, where)
  const out: Record<string, unknown> = { ...a }
  for (const [keyword, value] of Object.entries(b))
    out[keyword] = keyword in a ? mergeKeyword(keyword, a[keyword], value, where) : value
  return out
}

/**
 * Throws if `additionalProperties` of one schema would apply to properties of the other, to which it does not refer.
 */
function checkAdditionalProperties(a: Schema, b: Schema, where: string): void {
  for (const [one, other] of [
    [a, b],
    [b, a],
  ] as const) {
    if (one['additionalProperties'] === undefined || one['additionalProperties'] === true) continue
    const [own, others] = [one, other].map(
      ({ properties }) => new Set(isSchema(properties) ? Object.keys(properties) : []),
    ) as [Set<string>, Set<string>]
    if ([...others].some((name) => !own.has(name)))
      throw unsupported(
        'additionalProperties',
        where,
        'cannot be combined with properties of another schema in allOf, anyOf or $ref',
      )
  }
}

function mergeKeyword(keyword: string, a: unknown, b: unknown, where: string): unknown {
  if (JSON.stringify(a) === JSON.stringify(b)) return a
  const bound = STRICTER_BOUND[keyword]
  if (bound && typeof a === 'number' && typeof b === 'number') return bound(a, b)
  if (keyword === 'type') {
    const others = typesOf(b, where)
    return typesOf(a, where).flatMap((type) => commonTypes(type, others))
  }
  if (keyword === 'required' && Array.isArray(a) && Array.isArray(b))
    return [...new Set<unknown>([...(a as unknown[]), ...(b as unknown[])])]
  if (keyword === 'enum' && Array.isArray(a) && Array.isArray(b)) {
    const texts = new Set(b.map((value: unknown) => JSON.stringify(value)))
    return a.filter((value: unknown) => texts.has(JSON.stringify(value)))
  }
  if (keyword === 'properties' && isSchema(a) && isSchema(b)) {
    const other = b
    return {
      ...other,
      ...Object.fromEntries(
        Object.entries(a).map(([name, schema]) => [
          name,
          Object.hasOwn(other, name) ? { allOf: [schema, other[name]] } : schema,
        ]),
      ),
    }
  }
  throw unsupported(keyword, where, 'is set twice (in allOf, anyOf or beside $ref), which is not supported')
}

const commonTypes = (type: Type, others: readonly Type[]): Type[] =>
  others.includes(type)
    ? [type]
    : type === 'number' && others.includes('integer')
      ? ['integer']
      : type === 'integer' && others.includes('number')
        ? ['integer']
        : []
