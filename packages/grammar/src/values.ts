/** The values of `enum` and `const`, and whether schemas are disjoint by them. */
import { flatten, isSchema, typesOf, type Schema, type Type } from './keywords.ts'
import { tooLarge, unsupported, type Budget } from './schema-errors.ts'

const MAX_ENUM_CHARACTERS = 200_000

const typeOf = (value: unknown): Type =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'array'
      : Number.isInteger(value)
        ? 'integer'
        : (typeof value as Type)

const hasType = (value: unknown, types: readonly Type[]): boolean =>
  types.includes(typeOf(value)) || (typeOf(value) === 'integer' && types.includes('number'))

/** The values with the schema's type, as JSON. Throws `bad_request` for keywords other than `type`. */
export function jsonValuesOf(values: readonly unknown[], { type, ...rest }: Schema, where: string): string[] {
  const [other] = Object.keys(rest)
  if (other !== undefined) throw unsupported(other, where, 'is not supported beside enum or const')
  const types = type === undefined ? null : typesOf(type, where)
  const texts = values.filter((value) => types === null || hasType(value, types)).map((value) => JSON.stringify(value))
  if (texts.reduce((sum, text) => sum + text.length, 0) > MAX_ENUM_CHARACTERS) throw tooLarge('enum')
  return texts
}

/** The types that a schema allows, with `number` for `integer`; null if it has neither `type` nor values. */
const typesIn = (schema: Schema, where: string): Set<Type> | null => {
  const enumerated = enumeratedIn(schema)
  if (enumerated)
    return new Set(
      enumerated.map((text) => typeOf(JSON.parse(text))).map((type) => (type === 'integer' ? 'number' : type)),
    )
  return schema['type'] === undefined
    ? null
    : new Set(typesOf(schema['type'], where).map((type) => (type === 'integer' ? 'number' : type)))
}

const enumeratedIn = (schema: Schema): string[] | null =>
  'const' in schema
    ? [JSON.stringify(schema['const'])]
    : Array.isArray(schema['enum'])
      ? schema['enum'].map((value: unknown) => JSON.stringify(value))
      : null

/** Whether the schemas are pairwise disjoint: by type, or by the values of a property that both require. */
export function areDisjoint(
  schemas: readonly (Schema | false)[],
  root: unknown,
  where: string,
  budget: Budget,
): boolean {
  if (schemas.length > 100) throw tooLarge('oneOf')
  return schemas.every((a, i) =>
    schemas.slice(i + 1).every((b) => a === false || b === false || isDisjoint(a, b, root, where, budget)),
  )
}

function isDisjoint(a: Schema, b: Schema, root: unknown, where: string, budget: Budget): boolean {
  for (const { enum: list, required } of [a, b]) budget.spend(20 + 10 * (sizeOf(list) + sizeOf(required)), 'oneOf')
  const [types, others] = [typesIn(a, where), typesIn(b, where)]
  if (types && others && [...types].every((type) => !others.has(type))) return true
  const [enumerated, otherEnumerated] = [enumeratedIn(a), enumeratedIn(b)]
  if (enumerated && otherEnumerated) return new Set(enumerated).isDisjointFrom(new Set(otherEnumerated))
  // A value other than an object may match either, unless both require objects.
  if (!types || !others || [...types, ...others].some((type) => type !== 'object')) return false
  const alsoRequired = new Set(requiredIn(b))
  return requiredIn(a).some((name) => {
    if (!alsoRequired.has(name)) return false
    const [x, y] = [a, b].map(({ properties }) =>
      isSchema(properties) && Object.hasOwn(properties, name)
        ? enumeratedOf(properties[name], root, where, budget)
        : null,
    ) as [string[] | null, string[] | null]
    return x !== null && y !== null && new Set(x).isDisjointFrom(new Set(y))
  })
}

const sizeOf = (list: unknown): number => (Array.isArray(list) ? list.length : 0)

const enumeratedOf = (schema: unknown, root: unknown, where: string, budget: Budget): string[] | null => {
  const flat = flatten(schema, root, where, budget)
  return flat === false ? null : enumeratedIn(flat)
}

const requiredIn = ({ required }: Schema): string[] =>
  Array.isArray(required) ? required.filter((name): name is string => typeof name === 'string') : []
