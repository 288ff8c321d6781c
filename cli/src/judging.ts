/**
 * Judges the cases of `instar judge`: JSON lines from a stream, several at a time, with the verdicts in input order.
 */
import { InstarError } from '@instar/events/errors'
import { judgeTurn, type Evidence, type Judge } from '@instar/scorer'
import { z } from 'zod'
import { splitLines } from './lines.ts'

/** Maximum length of a line. */
export const MAX_CASE_BYTES = 8 << 20

const TOOL = z.union([z.string(), z.object({ name: z.string().optional(), content: z.string() })])
const CASE = z.object({
  request: z.string(),
  answer: z.string(),
  next: z
    .object({ user: z.string().nullable().default(''), tools: z.array(TOOL).default([]) })
    .nullable()
    .default(null),
})

/** `value`: 1 or −1; null: the judge abstains. `judge`: id of the judge that decided. */
type Verdict = { value: number | null; hint: string | null; judge: string | null }
/** `failed`: cases without a verdict because of an error of the judge. */
export type JudgeReport = { cases: number; failed: number }

const badLine = (number: number, why: string, cause?: unknown): InstarError =>
  new InstarError('bad_request', `Line ${number}: ${why}.`, { line: number }, { cause })

/** `number`: of the line. Throws `bad_request`. */
const parseCase = (line: string, number: number): Evidence => {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (cause) {
    throw badLine(number, 'it is not JSON', cause)
  }
  const parsed = CASE.safeParse(value)
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!
    throw badLine(number, `${path.join('.') || 'the case'}: ${message}`)
  }
  const { request, answer, next } = parsed.data
  const tools = next?.tools.map((tool) => (typeof tool === 'string' ? tool : tool.content)).join('\n') ?? ''
  return { request, answer, calls: false, next: next && { user: next.user ?? '', tools } }
}

/** Yields the lines that are not blank. Throws `bad_request` for one that is not UTF-8 or above MAX_CASE_BYTES. */
export const numberedLines = async function* (
  input: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ number: number; text: string }> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const { number, bytes, tooLong } of splitLines(input, MAX_CASE_BYTES)) {
    if (tooLong) throw badLine(number, `it is longer than ${MAX_CASE_BYTES} bytes`)
    let text: string
    try {
      text = decoder.decode(bytes)
    } catch (cause) {
      throw badLine(number, 'it is not UTF-8', cause)
    }
    yield { number, text }
  }
}

/** Judges and buffers at most `concurrency` cases at a time; counts them in `report`. Throws `bad_request`. */
export const judgeCases = async function* (
  judges: readonly Judge[],
  input: AsyncIterable<Uint8Array>,
  concurrency: number,
  signal: AbortSignal,
  report: JudgeReport,
): AsyncGenerator<Verdict> {
  const pending: Promise<Verdict>[] = []
  const judgeCase = async (evidence: Evidence): Promise<Verdict> => {
    const { reward, hint, verdicts, reason } = await judgeTurn(judges, { feedback: null }, evidence, signal)
    report.cases += 1
    if (reason === 'judge_failed') report.failed += 1
    return { value: reward, hint, judge: verdicts.at(-1)?.judge ?? judges[0]?.id ?? null }
  }
  for await (const { number, text } of numberedLines(input)) {
    signal.throwIfAborted()
    let evidence: Evidence
    try {
      evidence = parseCase(text, number)
    } catch (error) {
      // The verdicts on the lines before are yielded first.
      while (pending.length > 0) yield await pending.shift()!
      throw error
    }
    const verdict = judgeCase(evidence)
    verdict.catch(() => undefined)
    pending.push(verdict)
    if (pending.length >= concurrency) yield await pending.shift()!
  }
  while (pending.length > 0) yield await pending.shift()!
}
