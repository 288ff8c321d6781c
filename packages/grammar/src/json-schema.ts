/**
 * Compiles a JSON Schema to a grammar of valid JSON texts. It contains a subset of the valid texts: fields are in the
 * order of the schema, and `properties` without `additionalProperties` allow no others. Unsupported keywords are
 * refused.
 */
import { NO_TEXT, intersection, anyExcept, trimmed, type CharacterAutomaton } from './characters.ts'
import type { Grammar, Node } from './grammar.ts'
import {
  assertionsOf,
  flatten,
  isSchema,
  nonEmptyList,
  merge,
  resolvePointer,
  TYPE_OF_KEYWORD,
  TYPES,
  typesOf,
  type Schema,
  type Type,
} from './keywords.ts'
import { malformed, tooLarge, unsupported, type Budget } from './schema-errors.ts'
import { charactersOf, countIn, namesIn, numberNode, textNode } from './scalars.ts'
import { areDisjoint, jsonValuesOf } from './values.ts'
import { BLANKS, SPACE, words } from './terminal.ts'
import { jsonText } from './text.ts'

const MAX_DEPTH = 100
const MAX_SCHEMAS = 4000

export class SchemaCompiler {
  readonly grammar: Grammar
  private readonly root: unknown
  readonly inCall: boolean
  private readonly compiled = new Map<object, Node>()
  private readonly blanks: Node
  private readonly comma: Node
  private readonly space: Node
  private anyNode: Node | null = null
  private schemas = 0
  readonly budget: Budget

  /** `inCall`: the JSON is inside a tool call, where no string may contain the closing tag of the call. */
  constructor(grammar: Grammar, root: unknown, inCall: boolean, budget: Budget) {
    this.grammar = grammar
    this.root = root
    this.inCall = inCall
    this.budget = budget
    this.blanks = grammar.terminal(BLANKS)
    this.comma = this.literal(',')
    this.space = grammar.terminal(SPACE)
  }

  /** Throws `bad_request` with the path and the keyword that is invalid or not supported. */
  compile(): Node {
    return this.schema(this.root, '#', 0)
  }

  private literal(text: string): Node {
    return this.grammar.terminal(words([text]))
  }

  private schema(schema: unknown, where: string, depth: number): Node {
    if (schema === true) return this.any()
    if (schema === false) return this.grammar.choice([])
    if (!isSchema(schema)) throw malformed(where, 'an object, true or false')
    const compiled = this.compiled.get(schema)
    if (compiled) return compiled
    if (depth > MAX_DEPTH) throw tooLarge('its depth')
    if (++this.schemas > MAX_SCHEMAS) throw tooLarge('the number of its subschemas')
    return this.grammar.rule((rule) => {
      this.compiled.set(schema, rule)
      const { $ref, ...rest } = assertionsOf(schema, where)
      if ($ref !== undefined && Object.keys(rest).length === 0)
        return this.schema(resolvePointer(this.root, $ref, where), typeof $ref === 'string' ? $ref : where, depth + 1)
      const flat = flatten(schema, this.root, where, this.budget)
      return flat === false ? this.grammar.choice([]) : this.flat(flat, where, depth)
    })
  }

  private flat(schema: Schema, where: string, depth: number): Node {
    const { anyOf, oneOf, ...rest } = schema
    if (anyOf !== undefined && oneOf !== undefined) throw unsupported('oneOf', where, 'is not supported beside anyOf')
    if (anyOf !== undefined || oneOf !== undefined) {
      const keyword = anyOf === undefined ? 'oneOf' : 'anyOf'
      const branches = nonEmptyList(anyOf ?? oneOf, `${where}/${keyword}`)
      const alone = Object.keys(rest).length === 0
      const flats = branches.map((branch, i) => flatten(branch, this.root, `${where}/${keyword}/${i}`, this.budget))
      if (oneOf !== undefined && !areDisjoint(flats, this.root, where, this.budget))
        throw unsupported(
          'oneOf',
          where,
          'is only supported if its schemas differ in type, or in a required property with const or enum',
        )
      return this.grammar.choice(
        branches.map((branch, i) => {
          const flat = flats[i] ?? false
          return flat === false
            ? this.grammar.choice([])
            : this.schema(alone ? branch : merge(rest, flat, where, this.budget), `${where}/${keyword}/${i}`, depth + 1)
        }),
      )
    }
    if ('enum' in rest || 'const' in rest) return this.values(rest, where)
    return this.grammar.choice(this.typesIn(rest, where).map((type) => this.typed(type, rest, where, depth)))
  }

  private typesIn(schema: Schema, where: string): readonly Type[] {
    if (schema['type'] !== undefined) return typesOf(schema['type'], where)
    const constrained = [...new Set(Object.keys(schema).flatMap((keyword) => TYPE_OF_KEYWORD[keyword] ?? []))]
    return constrained.length > 0 ? constrained : TYPES.filter((type) => type !== 'integer')
  }

  /** The values of `enum` and `const` that the other keywords allow. */
  private values(schema: Schema, where: string): Node {
    const { enum: list, const: only, ...rest } = schema
    const values = [...(list === undefined ? [only] : nonEmptyList(list, `${where}/enum`))].filter(
      (value) => list === undefined || !('const' in schema) || JSON.stringify(value) === JSON.stringify(only),
    )
    const texts = jsonValuesOf(values, rest, where)
    if (texts.length === 0) return this.grammar.choice([])
    for (const text of texts) this.budget.spend(2 * text.length, 'enum')
    return this.grammar.terminal(words(texts.map((text) => this.escaped(text))))
  }

  /** In a call, `</` inside strings is written `<\/`. */
  private escaped(json: string): string {
    return this.inCall ? json.replaceAll('</', '<\\/') : json
  }

  private typed(type: Type, schema: Schema, where: string, depth: number): Node {
    switch (type) {
      case 'null':
        return this.literal('null')
      case 'boolean':
        return this.grammar.terminal(words(['true', 'false']))
      case 'integer':
      case 'number':
        return numberNode(this, type === 'integer', schema, where)
      case 'string':
        return textNode(this, schema, where)
      case 'array':
        return this.array(schema, where, depth)
      case 'object':
        return this.object(schema, where, depth)
    }
  }

  private array(schema: Schema, where: string, depth: number): Node {
    const { items, prefixItems, additionalItems, uniqueItems } = schema
    if (uniqueItems === true) throw unsupported('uniqueItems', where)
    const tuple = prefixItems ?? (Array.isArray(items) ? items : undefined)
    const restSchema = Array.isArray(items) ? additionalItems : items
    const min = countIn(schema, 'minItems', where) ?? 0
    const max = countIn(schema, 'maxItems', where) ?? Infinity
    const item = (one: unknown, at: string): Node =>
      this.grammar.sequence(this.blanks, this.schema(one, `${where}/${at}`, depth + 1))
    const first =
      tuple === undefined
        ? []
        : nonEmptyList(tuple, `${where}/prefixItems`).map((one, i) => item(one, `prefixItems/${i}`))
    // A tuple without `items` allows no further items, unless `minItems` requires them.
    const rest =
      restSchema === undefined
        ? tuple !== undefined && min <= first.length
          ? null
          : item(true, 'items')
        : item(restSchema, 'items')
    const list = this.grammar.list({
      first,
      rest,
      min: Math.max(min, Math.min(first.length, max)),
      max,
      separator: this.comma,
    })
    return this.grammar.sequence(this.literal('['), list, this.blanks, this.literal(']'))
  }

  private object(schema: Schema, where: string, depth: number): Node {
    const { properties = {}, additionalProperties } = schema
    if (!isSchema(properties)) throw malformed(`${where}/properties`, 'an object')
    const required = schema['required'] === undefined ? [] : namesIn(schema['required'], `${where}/required`)
    const requiredNames = new Set(required)
    const additional = additionalProperties ?? schema['properties'] === undefined
    const names = this.names(schema, where)
    const listedNames = names?.list ?? []
    const isListed = new Set(listedNames)
    const otherNames = [...new Set([...required, ...(additional === false ? [] : listedNames)])].filter(
      (name) => !Object.hasOwn(properties, name),
    )
    const allFields = [
      ...Object.entries(properties),
      ...otherNames.map((name): [string, unknown] => [name, additionalProperties ?? true]),
    ].map(([name, of]) => [name, names?.list && !isListed.has(name) ? false : of] as const)
    const value = (of: unknown, at: string): Node => this.schema(of, `${where}/${at}`, depth + 1)
    const fields = allFields.map(([name, of]) => ({
      node: this.grammar.sequence(
        this.blanks,
        this.literal(`${this.escaped(JSON.stringify(name))}:`),
        this.space,
        value(of, `properties/${name}`),
      ),
      required: requiredNames.has(name),
    }))
    const minProperties = countIn(schema, 'minProperties', where) ?? 0
    const maxProperties = countIn(schema, 'maxProperties', where) ?? Infinity
    if (minProperties > requiredNames.size)
      throw unsupported('minProperties', where, 'is only supported up to the number of required properties')
    if (maxProperties < fields.length || (maxProperties < Infinity && additional !== false))
      throw unsupported('maxProperties', where, 'is only supported if it excludes no combination of properties')
    const extra =
      additional === false || names?.list
        ? null
        : this.extra(
            allFields.map(([name]) => name),
            names?.characters ?? null,
            value(additional, 'additionalProperties'),
          )
    return this.grammar.sequence(
      this.literal('{'),
      this.grammar.members({ fields, extra, separator: this.comma }),
      this.blanks,
      this.literal('}'),
    )
  }

  /** A field whose name is not in `names`. `allowed`: the automaton of its name; null: any. */
  private extra(names: readonly string[], allowed: CharacterAutomaton | null, value: Node): Node | null {
    const otherNames = anyExcept(names, this.budget)
    const characters = trimmed(allowed ? intersection(otherNames, allowed, this.budget) : otherNames)
    const text = names.length === 0 && !allowed ? { min: 0, max: Infinity, inCall: this.inCall } : null
    return (
      characters &&
      this.grammar.sequence(
        this.blanks,
        this.grammar.terminal(jsonText(characters, this.inCall), text),
        this.literal(':'),
        this.space,
        value,
      )
    )
  }

  /** The names that `propertyNames` allows: a list, or an automaton; null: any. */
  private names(
    schema: Schema,
    where: string,
  ): { list: readonly string[] | null; characters: CharacterAutomaton | null } | null {
    if (schema['propertyNames'] === undefined || schema['propertyNames'] === true) return null
    const at = `${where}/propertyNames`
    const flat = flatten(schema['propertyNames'], this.root, at, this.budget)
    if (flat === false) return { list: [], characters: null }
    const { type, enum: list, const: only, ...rest } = flat
    if (type !== undefined && !typesOf(type, at).includes('string')) return { list: [], characters: null }
    if (list !== undefined || only !== undefined)
      return {
        list: jsonValuesOf(list === undefined ? [only] : nonEmptyList(list, at), { type: 'string', ...rest }, at).map(
          (word) => String(JSON.parse(word)),
        ),
        characters: null,
      }
    const unsupportedKeyword = Object.keys(rest).find((keyword) => TYPE_OF_KEYWORD[keyword] !== 'string')
    if (unsupportedKeyword !== undefined) throw unsupported(unsupportedKeyword, at, 'is not supported for names')
    if (Object.keys(rest).length === 0) return null
    if (schema['properties'] !== undefined || schema['required'] !== undefined)
      throw unsupported('propertyNames', where, 'is only supported as an enum beside properties or required')
    return { list: null, characters: charactersOf(rest, at, this.budget) ?? NO_TEXT }
  }

  private any(): Node {
    this.anyNode ??= this.grammar.rule((rule) => {
      this.anyNode = rule
      return this.grammar.choice(TYPES.filter((type) => type !== 'integer').map((type) => this.typed(type, {}, '#', 0)))
    })
    return this.anyNode
  }
}
