/** Grammar nodes of numbers and strings of a JSON Schema. */
import { ANY_TEXT, intersection, ofLength, trimmed, type CharacterAutomaton } from './characters.ts'
import { formatOf } from './formats.ts'
import type { Grammar, Node } from './grammar.ts'
import { TYPE_OF_KEYWORD, type Schema } from './keywords.ts'
import { INTEGER, NUMBER, numberBetween, type Bounds } from './numbers.ts'
import { patternOf } from './pattern.ts'
import { malformed, unsupported, type Budget } from './schema-errors.ts'
import { jsonText } from './text.ts'

/** `inCall`: the JSON is inside a tool call, where no string may contain the closing tag of the call. */
type CompilerContext = { grammar: Grammar; budget: Budget; inCall: boolean }

export function numberNode(
  { grammar, budget }: CompilerContext,
  isInteger: boolean,
  schema: Schema,
  where: string,
): Node {
  const bound = (name: string, absent: number): number => numberIn(schema, name, where) ?? absent
  const multipleOf = bound('multipleOf', 0)
  if (multipleOf !== 0 && !(Number.isSafeInteger(multipleOf) && multipleOf >= 1 && multipleOf <= 1000))
    throw unsupported('multipleOf', where, 'is only supported with integers from 1 to 1000')
  const [min, max, exclusiveMin, exclusiveMax] = [
    bound('minimum', -Infinity),
    bound('maximum', Infinity),
    bound('exclusiveMinimum', -Infinity),
    bound('exclusiveMaximum', Infinity),
  ]
  if (
    multipleOf === 0 &&
    min === -Infinity &&
    max === Infinity &&
    exclusiveMin === -Infinity &&
    exclusiveMax === Infinity
  )
    return grammar.terminal(isInteger ? INTEGER : NUMBER)
  const bounds: Bounds = {
    min: Math.max(min, exclusiveMin),
    max: Math.min(max, exclusiveMax),
    above: exclusiveMin >= min && exclusiveMin > -Infinity,
    below: exclusiveMax <= max && exclusiveMax < Infinity,
    multipleOf: multipleOf || 1,
  }
  const [key, keyword] = [
    Object.values({ ...bounds, isInteger }).join(' '),
    Object.keys(TYPE_OF_KEYWORD).find((name) => TYPE_OF_KEYWORD[name] === 'number' && schema[name] !== undefined) ??
      'type',
  ]
  const { numbers } = grammar
  if (!numbers.has(key))
    numbers.set(
      key,
      numberBetween(bounds, isInteger || multipleOf !== 0, (work) => budget.spend(work, keyword)),
    )
  const terminal = numbers.get(key)
  return terminal ? grammar.terminal(terminal) : grammar.choice([])
}

export function textNode({ grammar, budget, inCall }: CompilerContext, schema: Schema, where: string): Node {
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

/** The automaton of `pattern`, `format` and lengths; null if no text is allowed. */
export function charactersOf(schema: Schema, where: string, budget: Budget): CharacterAutomaton | null {
  const { pattern, format } = schema
  const [min, max] = [countIn(schema, 'minLength', where) ?? 0, countIn(schema, 'maxLength', where) ?? Infinity]
  const automata: (CharacterAutomaton | null)[] = []
  if (pattern !== undefined) automata.push(patternOf(textIn(pattern, `${where}/pattern`), where, budget))
  if (format !== undefined) {
    const source = formatOf(textIn(format, `${where}/format`), pattern !== undefined, where)
    if (source !== null) automata.push(patternOf(source, where, budget, true))
  }
  if (min > 0 || max < Infinity) automata.push(ofLength(min, max, budget))
  return automata.reduce(
    (all, automaton) =>
      all && automaton && (all === ANY_TEXT ? automaton : trimmed(intersection(all, automaton, budget))),
    ANY_TEXT,
  )
}

function textIn(value: unknown, where: string): string {
  if (typeof value !== 'string') throw malformed(where, 'a string')
  return value
}

export function namesIn(value: unknown, where: string): string[] {
  if (!Array.isArray(value) || !value.every((name): name is string => typeof name === 'string'))
    throw malformed(where, 'a list of strings')
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
  if (value !== null && (!Number.isSafeInteger(value) || value < 0))
    throw malformed(`${where}/${name}`, 'a non-negative integer')
  return value
}
