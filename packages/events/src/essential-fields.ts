/** Fields that a reader of an earlier build must not drop. */

/**
 * Fields of a schema that change what a reader must do (`"essential": true` in the schema; their default is null) and that
 * the schema `known` lacks.
 */
export const essentialFields = (text: string, known: string): string[] => {
  const fieldsOf = (schema: string) =>
    (JSON.parse(schema) as { fields: { name: string; essential?: boolean }[] }).fields
  const own = new Set(fieldsOf(known).map(({ name }) => name))
  return fieldsOf(text).flatMap(({ name, essential }) => (essential === true && !own.has(name) ? [name] : []))
}

/** The first of the fields that has a value. `read`: the whole record, which is read only where there are such fields. */
export const valueIn = (fields: readonly string[], read: () => Record<string, unknown>): string | undefined => {
  if (fields.length === 0) return undefined
  const whole = read()
  return fields.find((field) => whole[field] !== null)
}
