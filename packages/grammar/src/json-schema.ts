/**
 * JSON Schema → a grammar of valid JSON texts. It has not all valid texts: fields come in the order of the schema, and
 * `properties` without `additionalProperties` are all there are. A keyword that is not supported is refused.
 */
import { NO_TEXT, both, except, trimmed, type Characters } from './characters.ts'
import type { Grammar, Node } from './grammar.ts'
import {
  asserted,
  flattened,
  isSchema,
  listOf,
  merged,
  pointed,
  TYPE_OF_KEYWORD,
  TYPES,
  typesOf,
  type Schema,
  type Type,
} from './keywords.ts'
import { malformed, tooLarge, unsupported, type Budget } from './refusal.ts'
import { charactersOf, countIn, namesIn, numberNode, textNode } from './scalars.ts'
import { distinct, wordsOf } from './values.ts'
import { BLANKS, SPACE, words } from './terminal.ts'
import { jsonText } from './text.ts'

const MAX_DEPTH = 100
const MAX_SCHEMAS = 4000

export class SchemaCompiler {
  readonly grammar: Grammar
  private readonly root: unknown
  readonly inCall: boolean
  private readonly known = new Map<object, Node>()
  private readonly blanks: Node
  private readonly comma: Node
  private readonly space: Node
  private anything: Node | null = null
  private schemas = 0
  readonly budget: Budget

  /** `inCall`: the JSON stands in a tool call, where no text may look like the end of the call. */
  constructor(grammar: Grammar, root: unknown, inCall: boolean, budget: Budget) {
    this.grammar = grammar
    this.root = root
    this.inCall = inCall
    this.budget = budget
    this.blanks = grammar.terminal(BLANKS)
    this.comma = this.literal(',')
    this.space = grammar.terminal(SPACE)
  }

  /** Throws `bad_request` naming what is not supported. */
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
    const known = this.known.get(schema)
    if (known) return known
    if (depth > MAX_DEPTH) throw tooLarge('its depth')
    if (++this.schemas > MAX_SCHEMAS) throw tooLarge('the number of its parts')
    return this.grammar.rule((rule) => {
      this.known.set(schema, rule)
      const { $ref, ...rest } = asserted(schema, where)
      if ($ref !== undefined && Object.keys(rest).length === 0)
        return this.schema(pointed(this.root, $ref, where), typeof $ref === 'string' ? $ref : where, depth + 1)
      const flat = flattened(schema, this.root, where, this.budget)
      return flat === false ? this.grammar.choice([]) : this.flat(flat, where, depth)
    })
  }

  private flat(schema: Schema, where: string, depth: number): Node {
    const { anyOf, oneOf, ...rest } = schema
    if (anyOf !== undefined && oneOf !== undefined) throw unsupported('oneOf', where, 'is not supported beside anyOf')
    if (anyOf !== undefined || oneOf !== undefined) {
      const keyword = anyOf === undefined ? 'oneOf' : 'anyOf'
      const given = listOf(anyOf ?? oneOf, `${where}/${keyword}`)
      const alone = Object.keys(rest).length === 0
      const flats = given.map((branch, i) => flattened(branch, this.root, `${where}/${keyword}/${i}`, this.budget))
      if (oneOf !== undefined && !distinct(flats, this.root, where, this.budget))
        throw unsupported(
          'oneOf',
          where,
          'is only supported where the type, or a required property with const or enum, tells its schemas apart',
        )
      return this.grammar.choice(
        given.map((branch, i) => {
          const flat = flats[i] ?? false
          return flat === false
            ? this.grammar.choice([])
            : this.schema(alone ? branch : merged(rest, flat, where), `${where}/${keyword}/${i}`, depth + 1)
        }),
      )
    }
    if ('enum' in rest || 'const' in rest) return this.values(rest, where)
    return this.grammar.choice(this.typesIn(rest, where).map((type) => this.typed(type, rest, where, depth)))
  }

  private typesIn(schema: Schema, where: string): readonly Type[] {
    if (schema['type'] !== undefined) return typesOf(schema['type'], where)
    const spoken = [...new Set(Object.keys(schema).flatMap((keyword) => TYPE_OF_KEYWORD[keyword] ?? []))]
    return spoken.length > 0 ? spoken : TYPES.filter((type) => type !== 'integer')
  }

  /** The values of `enum` and `const` that the rest of the schema allows. */
  private values(schema: Schema, where: string): Node {
    const { enum: list, const: only, ...rest } = schema
    const given = [...(list === undefined ? [only] : listOf(list, `${where}/enum`))].filter(
      (value) => list === undefined || !('const' in schema) || JSON.stringify(value) === JSON.stringify(only),
    )
    const texts = wordsOf(given, rest, where)
    if (texts.length === 0) return this.grammar.choice([])
    return this.grammar.terminal(words(texts.map((text) => this.written(text))))
  }

  /** In a call `</`, which occurs inside texts alone, is written `<\/`. */
  private written(json: string): string {
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
    const before = prefixItems ?? (Array.isArray(items) ? items : undefined)
    const behind = Array.isArray(items) ? additionalItems : items
    const min = countIn(schema, 'minItems', where) ?? 0
    const max = countIn(schema, 'maxItems', where) ?? Infinity
    const item = (one: unknown, at: string): Node =>
      this.grammar.sequence(this.blanks, this.schema(one, `${where}/${at}`, depth + 1))
    const first =
      before === undefined ? [] : listOf(before, `${where}/prefixItems`).map((one, i) => item(one, `prefixItems/${i}`))
    // A tuple without `items` has no further items.
    const rest =
      behind === undefined
        ? before !== undefined && min <= first.length
          ? null
          : item(true, 'items')
        : item(behind, 'items')
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
    const needed = new Set(required)
    const open = additionalProperties ?? schema['properties'] === undefined
    const names = this.names(schema, where)
    const listed = names?.list ?? []
    const others = [...new Set([...required, ...(open === false ? [] : listed)])].filter(
      (name) => !Object.hasOwn(properties, name),
    )
    const named = [
      ...Object.entries(properties),
      ...others.map((name): [string, unknown] => [name, additionalProperties ?? true]),
    ].map(([name, of]) => [name, names?.list && !names.list.includes(name) ? false : of] as const)
    const value = (of: unknown, at: string): Node => this.schema(of, `${where}/${at}`, depth + 1)
    const fields = named.map(([name, of]) => ({
      node: this.grammar.sequence(
        this.blanks,
        this.literal(`${this.written(JSON.stringify(name))}:`),
        this.space,
        value(of, `properties/${name}`),
      ),
      required: needed.has(name),
    }))
    const minimum = countIn(schema, 'minProperties', where) ?? 0
    const maximum = countIn(schema, 'maxProperties', where) ?? Infinity
    if (minimum > needed.size)
      throw unsupported('minProperties', where, 'is only supported up to the number of required properties')
    if (maximum < fields.length || (maximum < Infinity && open !== false))
      throw unsupported('maxProperties', where, 'is only supported where no more properties are named')
    const extra =
      open === false || names?.list
        ? null
        : this.extra(
            named.map(([name]) => name),
            names?.characters ?? null,
            value(open, 'additionalProperties'),
          )
    return this.grammar.sequence(
      this.literal('{'),
      this.grammar.members({ fields, extra, separator: this.comma }),
      this.blanks,
      this.literal('}'),
    )
  }

  /** A field with a name not in `names`. */
  private extra(names: readonly string[], allowed: Characters | null, value: Node): Node | null {
    const other = except(names, this.budget)
    const characters = trimmed(allowed ? both(other, allowed, this.budget) : other)
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

  /** The allowed names: a list, or texts of an automaton; null: any. */
  private names(
    schema: Schema,
    where: string,
  ): { list: readonly string[] | null; characters: Characters | null } | null {
    if (schema['propertyNames'] === undefined || schema['propertyNames'] === true) return null
    const at = `${where}/propertyNames`
    const flat = flattened(schema['propertyNames'], this.root, at, this.budget)
    if (flat === false) return { list: [], characters: null }
    const { type, enum: list, const: only, ...rest } = flat
    if (type !== undefined && !typesOf(type, at).includes('string')) return { list: [], characters: null }
    if (list !== undefined || only !== undefined)
      return {
        list: wordsOf(list === undefined ? [only] : listOf(list, at), { type: 'string', ...rest }, at).map((word) =>
          String(JSON.parse(word)),
        ),
        characters: null,
      }
    const other = Object.keys(rest).find((keyword) => TYPE_OF_KEYWORD[keyword] !== 'string')
    if (other !== undefined) throw unsupported(other, at, 'is not supported for names')
    if (Object.keys(rest).length === 0) return null
    if (schema['properties'] !== undefined || schema['required'] !== undefined)
      throw unsupported('propertyNames', where, 'is only supported beside properties or required as a list')
    return { list: null, characters: charactersOf(rest, at, this.budget) ?? NO_TEXT }
  }

  private any(): Node {
    this.anything ??= this.grammar.rule((rule) => {
      this.anything = rule
      return this.grammar.choice(TYPES.filter((type) => type !== 'integer').map((type) => this.typed(type, {}, '#', 0)))
    })
    return this.anything
  }
}
