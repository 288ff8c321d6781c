/** Numbers and texts of a JSON Schema as parts of a grammar. */
import { ANY_TEXT, both, ofLength, trimmed, type Characters } from './characters.ts'
import { formatOf } from './formats.ts'
import type { Grammar, Node } from './grammar.ts'
import { TYPE_OF_KEYWORD, type Schema } from './keywords.ts'
import { INTEGER, NUMBER, numberBetween, type Bounds } from './numbers.ts'
import { patternOf } from './pattern.ts'
import { malformed, unsupported, type Budget } from './refusal.ts'
import { jsonText } from './text.ts'

/** `inCall`: the JSON stands in a tool call, where no text may look like the end of the call. */
type Compiling = { grammar: Grammar; budget: Budget; inCall: boolean }

export function numberNode({ grammar, budget }: Compiling, whole: boolean, schema: Schema, where: string): Node {
  const bound = (name: string, otherwise: number): number => numberIn(schema, name, where) ?? otherwise
  const multipleOf = bound('multipleOf', 0)
  if (multipleOf !== 0 && !(Number.isSafeInteger(multipleOf) && multipleOf >= 1 && multipleOf <= 1000))
    throw unsupported('multipleOf', where, 'is only supported from 1 to 1000, as a whole number')
  const [min, max, over, under] = [
    bound('minimum', -Infinity),
    bound('maximum', Infinity),
    bound('exclusiveMinimum', -Infinity),
    bound('exclusiveMaximum', Infinity),
  ]
  if (multipleOf === 0 && min === -Infinity && max === Infinity && over === -Infinity && under === Infinity)
    return grammar.terminal(whole ? INTEGER : NUMBER)
  const bounds: Bounds = {
    min: Math.max(min, over),
    max: Math.min(max, under),
    above: over >= min && over > -Infinity,
    below: under <= max && under < Infinity,
    multipleOf: multipleOf || 1,
  }
  const [key, keyword] = [
    Object.values({ ...bounds, whole }).join(' '),
    Object.keys(TYPE_OF_KEYWORD).find((name) => TYPE_OF_KEYWORD[name] === 'number' && schema[name] !== undefined) ??
      'type',
  ]
  const { numbers } = grammar
  if (!numbers.has(key))
    numbers.set(
      key,
      numberBetween(bounds, whole || multipleOf !== 0, (work) => budget.spend(work, keyword)),
    )
  const between = numbers.get(key)
  return between ? grammar.terminal(between) : grammar.choice([])
}

export function textNode({ grammar, budget, inCall }: Compiling, schema: Schema, where: string): Node {
  const characters = charactersOf(schema, where, budget)
  if (!characters) return grammar.choice([])
  const plain = schema['pattern'] === undefined && schema['format'] === undefined
  const text = plain
    ? {
        min: countIn(schema, 'minLength', where) ?? 0,
        max: countIn(schema, 'maxLength', where) ?? Infinity,
        inCall,
      }
    : null
  return grammar.terminal(jsonText(characters, inCall), text)
}

/** The automaton of `pattern`, `format` and lengths. Null: no text is allowed. */
export function charactersOf(schema: Schema, where: string, budget: Budget): Characters | null {
  const { pattern, format } = schema
  const [min, max] = [countIn(schema, 'minLength', where) ?? 0, countIn(schema, 'maxLength', where) ?? Infinity]
  const kinds: (Characters | null)[] = []
  if (pattern !== undefined) kinds.push(patternOf(textIn(pattern, `${where}/pattern`), where, budget))
  if (format !== undefined) {
    const source = formatOf(textIn(format, `${where}/format`), pattern !== undefined, where)
    if (source !== null) kinds.push(patternOf(source, where, budget, true))
  }
  if (min > 0 || max < Infinity) kinds.push(ofLength(min, max, budget))
  return kinds.reduce(
    (all, kind) => all && kind && (all === ANY_TEXT ? kind : trimmed(both(all, kind, budget))),
    ANY_TEXT,
  )
}

function textIn(value: unknown, where: string): string {
  if (typeof value !== 'string') throw malformed(where, 'a text')
  return value
}

export function namesIn(value: unknown, where: string): string[] {
  if (!Array.isArray(value) || !value.every((name): name is string => typeof name === 'string'))
    throw malformed(where, 'a list of names')
  return value
}

function numberIn(schema: Schema, name: string, where: string): number | null {
  const value = schema[name]
  if (value === undefined) return null
  if (typeof value !== 'number' || !Number.isFinite(value)) throw malformed(`${where}/${name}`, 'a number')
  return value
}

export function countIn(schema: Schema, name: string, where: string): number | null {
  const value = numberIn(schema, name, where)
  if (value !== null && (!Number.isSafeInteger(value) || value < 0)) throw malformed(`${where}/${name}`, 'a count')
  return value
}
