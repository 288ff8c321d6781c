/** The values of `enum` and `const`, and whether schemas are disjoint by such values. */
import { flattened, isSchema, typesOf, type Schema, type Type } from './keywords.ts'
import { tooLarge, unsupported, type Budget } from './refusal.ts'

const ENUM_CHARACTERS_MAX = 200_000

const typeOf = (value: unknown): Type =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'array'
      : Number.isInteger(value)
        ? 'integer'
        : (typeof value as Type)

const fits = (value: unknown, types: readonly Type[]): boolean =>
  types.includes(typeOf(value)) || (typeOf(value) === 'integer' && types.includes('number'))

/** The values of the schema's type, as JSON. Besides `enum` and `const` only `type` is supported. */
export function wordsOf(values: readonly unknown[], { type, ...rest }: Schema, where: string): string[] {
  const [other] = Object.keys(rest)
  if (other !== undefined) throw unsupported(other, where, 'is not supported beside enum or const')
  const types = type === undefined ? null : typesOf(type, where)
  const texts = values.filter((value) => types === null || fits(value, types)).map((value) => JSON.stringify(value))
  if (texts.reduce((sum, text) => sum + text.length, 0) > ENUM_CHARACTERS_MAX) throw tooLarge('enum')
  return texts
}

/** The types that a schema allows, integers as numbers; null if it has no `type`. */
const typesIn = (schema: Schema, where: string): Set<Type> | null => {
  const named = namedIn(schema)
  if (named)
    return new Set(named.map((text) => typeOf(JSON.parse(text))).map((type) => (type === 'integer' ? 'number' : type)))
  return schema['type'] === undefined
    ? null
    : new Set(typesOf(schema['type'], where).map((type) => (type === 'integer' ? 'number' : type)))
}

const namedIn = (schema: Schema): string[] | null =>
  'const' in schema
    ? [JSON.stringify(schema['const'])]
    : Array.isArray(schema['enum'])
      ? schema['enum'].map((value: unknown) => JSON.stringify(value))
      : null

/** Whether the schemas are disjoint: by type, or by the values of a property that both require. */
export function distinct(schemas: readonly (Schema | false)[], root: unknown, where: string, budget: Budget): boolean {
  if (schemas.length > 100) throw tooLarge('oneOf')
  return schemas.every((a, i) =>
    schemas.slice(i + 1).every((b) => a === false || b === false || apart(a, b, root, where, budget)),
  )
}

function apart(a: Schema, b: Schema, root: unknown, where: string, budget: Budget): boolean {
  const [types, others] = [typesIn(a, where), typesIn(b, where)]
  if (types && others && [...types].every((type) => !others.has(type))) return true
  const [named, otherNamed] = [namedIn(a), namedIn(b)]
  if (named && otherNamed) return new Set(named).isDisjointFrom(new Set(otherNamed))
  // A value other than an object may match either, unless both require objects.
  if (!types || !others || [...types, ...others].some((type) => type !== 'object')) return false
  const alsoRequired = new Set(requiredIn(b))
  return requiredIn(a).some((name) => {
    if (!alsoRequired.has(name)) return false
    const [x, y] = [a, b].map(({ properties }) =>
      isSchema(properties) && Object.hasOwn(properties, name) ? namedOf(properties[name], root, where, budget) : null,
    ) as [string[] | null, string[] | null]
    return x !== null && y !== null && new Set(x).isDisjointFrom(new Set(y))
  })
}

const namedOf = (schema: unknown, root: unknown, where: string, budget: Budget): string[] | null => {
  const flat = flattened(schema, root, where, budget)
  return flat === false ? null : namedIn(flat)
}

const requiredIn = ({ required }: Schema): string[] =>
  Array.isArray(required) ? required.filter((name): name is string => typeof name === 'string') : []
