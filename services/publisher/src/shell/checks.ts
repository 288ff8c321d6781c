/**
 * Checks of an answer: `{exact}`, `{regex}`, `{"json-schema"}`, `{judge}`; and the kinds of models/tiny. All are strict
 * JSON.
 */
import type { ChatMessage } from '@instar/engine/port'
import { createContext, Script } from 'node:vm'
import { z } from 'zod'
import { checkProbe } from '../../../../models/tiny/recipe/probe.ts'
import type { AskJudge } from './probe-judge.ts'

const strings = z.union([z.string(), z.array(z.string()).min(1)])

/** `flags` are those of a JavaScript RegExp; `not`: the answer must not match it. */
const regexCheck = z.strictObject({
  regex: z.string().min(1),
  not: z.string().optional(),
  flags: z.string().optional(),
})
const exactCheck = z.strictObject({ exact: strings, ignoreCase: z.boolean().optional() })
const schemaCheck = z.strictObject({ 'json-schema': z.union([z.record(z.string(), z.unknown()), z.boolean()]) })
const judgeCheck = z.strictObject({ judge: z.string().min(1).max(2000) })

export type Check = (answer: string) => boolean | Promise<boolean>
/** What a check by a judge needs: the probe's messages, and the judge; null: none is configured. */
export type Judged = { messages: readonly ChatMessage[]; ask: AskJudge | null }

/** Milliseconds for one answer: patterns are the operator's and answers the model's, on the thread that serves. */
const LIMIT_MS = 1000
const limited: { check: () => boolean } = { check: () => false }
const context = createContext(limited)
const script = new Script('check()')

/** An answer on which the check throws or takes longer than LIMIT_MS does not pass it. */
const bounded =
  (check: (answer: string) => boolean): Check =>
  (answer) => {
    limited.check = () => check(answer)
    try {
      return script.runInContext(context, { timeout: LIMIT_MS }) as boolean
    } catch {
      return false
    }
  }

/** JSON inside one code fence, or the whole answer. */
const jsonText = (answer: string): string => /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(answer)?.[1] ?? answer

const parseJson = (text: string): { value: unknown } | null => {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return null
  }
}

const matches = <T>(schema: z.ZodType<T>, value: unknown): T => {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new RangeError(`${['check', ...(issue?.path ?? [])].join('.')}: ${issue?.message ?? 'invalid'}`)
}

/**
 * Throws RangeError, SyntaxError or Error with the reason, if the check is not one of the kinds or does not compile.
 */
export const compileCheck = (check: unknown, { messages, ask }: Judged = { messages: [], ask: null }): Check => {
  if (typeof check !== 'object' || check === null)
    throw new RangeError('check: exact, regex, json-schema or judge is missing')
  if ('exact' in check) {
    const { exact, ignoreCase = false } = matches(exactCheck, check)
    const plain = (text: string): string => (ignoreCase ? text.trim().toLowerCase() : text.trim())
    const allowed = new Set((Array.isArray(exact) ? exact : [exact]).map(plain))
    return (answer) => allowed.has(plain(answer))
  }
  if ('regex' in check) {
    const { regex, not, flags = '' } = matches(regexCheck, check)
    if (/[gy]/.test(flags)) throw new RangeError('check.flags: g and y are not allowed')
    const [wanted, unwanted] = [new RegExp(regex, flags), not === undefined ? null : new RegExp(not, flags)]
    return bounded((answer) => wanted.test(answer) && !unwanted?.test(answer))
  }
  if ('json-schema' in check) {
    const schema = z.fromJSONSchema(
      matches(schemaCheck, check)['json-schema'] as Parameters<typeof z.fromJSONSchema>[0],
    )
    return bounded((answer) => {
      const parsed = parseJson(jsonText(answer))
      return parsed !== null && schema.safeParse(parsed.value).success
    })
  }
  if ('judge' in check) {
    const { judge: criterion } = matches(judgeCheck, check)
    if (ask === null) throw new RangeError('check.judge: no model judges; set INSTAR_JUDGE_URL, or use another check')
    return (answer) => ask({ messages, answer, criterion })
  }
  throw new RangeError(`check: ${Object.keys(check).join(', ') || 'empty'} is none of exact, regex, json-schema, judge`)
}

const numbers = z.array(z.number())
const words = z.array(z.string())
const expectation = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('number'), value: z.number(), given: numbers }),
  z.object({ kind: z.literal('sequence'), value: numbers }),
  z.object({ kind: z.literal('word'), value: z.string(), rivals: words, given: words }),
  z.object({ kind: z.literal('members'), count: z.int(), members: words, rivals: words }),
])

/** The checks of models/tiny/probes.jsonl. Throws RangeError. */
export const compileExpectation = (expect: unknown): Check => {
  const wanted = matches(expectation, expect)
  return (answer) => checkProbe({ expect: wanted }, answer)
}
