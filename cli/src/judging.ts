/** Cases of `instar judge`: lines of JSON from a stream, judged a few at a time, told in the order in which they came. */
import { InstarError } from '@instar/events/errors'
import { judgeTurn, type Evidence, type Judge } from '@instar/scorer'
import { z } from 'zod'

/** Bytes of a line: a case holds three texts and some results of tools. */
export const LONGEST_CASE = 8 << 20

const TOOL = z.union([z.string(), z.object({ name: z.string().optional(), content: z.string() })])
const CASE = z.object({
  request: z.string(),
  answer: z.string(),
  next: z
    .object({ user: z.string().nullable().default(''), tools: z.array(TOOL).default([]) })
    .nullable()
    .default(null),
})

export type Verdict = { value: number | null; hint: string | null; judge: string | null }
/** `failed`: cases of which the judge gave no verdict because it did not work. */
export type JudgeReport = { cases: number; failed: number }

const badLine = (number: number, why: string, cause?: unknown): InstarError =>
  new InstarError('bad_request', `Line ${number}: ${why}.`, { line: number }, { cause })

export const evidenceOf = (line: string, number: number): Evidence => {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (cause) {
    throw badLine(number, 'no JSON', cause)
  }
  const read = CASE.safeParse(value)
  if (!read.success) {
    const { path, message } = read.error.issues[0]!
    throw badLine(number, `${path.join('.') || 'the case'}: ${message}`)
  }
  const { request, answer, next } = read.data
  const tools = next?.tools.map((tool) => (typeof tool === 'string' ? tool : tool.content)).join('\n') ?? ''
  return { request, answer, calls: false, next: next && { user: next.user ?? '', tools } }
}

/** Lines that are not blank, with their numbers from 1. Of an unfinished line at most LONGEST_CASE bytes are held. */
export const numberedLines = async function* (
  input: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ number: number; text: string }> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let number = 0
  const lineOf = (bytes: Uint8Array): { number: number; text: string } | null => {
    number += 1
    let text: string
    try {
      text = decoder.decode(bytes)
    } catch (cause) {
      throw badLine(number, 'no UTF-8', cause)
    }
    return text.trim() === '' ? null : { number, text }
  }
  let held: Uint8Array[] = []
  let size = 0
  for await (const piece of input) {
    let from = 0
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, from)) {
      const line = lineOf(Buffer.concat([...held, piece.subarray(from, end)]))
      if (line) yield line
      held = []
      size = 0
      from = end + 1
    }
    size += piece.length - from
    if (size > LONGEST_CASE) throw badLine(number + 1, `longer than ${LONGEST_CASE} bytes`)
    if (from < piece.length) held.push(Uint8Array.from(piece.subarray(from)))
  }
  const line = held.length > 0 ? lineOf(Buffer.concat(held)) : null
  if (line) yield line
}

/** At most `concurrency` cases are judged at a time, and as many are held. */
export const judgeCases = async function* (
  judges: readonly Judge[],
  input: AsyncIterable<Uint8Array>,
  concurrency: number,
  signal: AbortSignal,
  report: JudgeReport,
): AsyncGenerator<Verdict> {
  const waiting: Promise<Verdict>[] = []
  const verdictOn = async (evidence: Evidence): Promise<Verdict> => {
    const { reward, hint, verdicts, reason } = await judgeTurn(judges, { feedback: null }, evidence, signal)
    report.cases += 1
    if (reason === 'judge_failed') report.failed += 1
    return { value: reward, hint, judge: verdicts.at(-1)?.judge ?? judges[0]?.id ?? null }
  }
  for await (const { number, text } of numberedLines(input)) {
    signal.throwIfAborted()
    let evidence: Evidence
    try {
      evidence = evidenceOf(text, number)
    } catch (error) {
      // Cases before it are told first.
      while (waiting.length > 0) yield await waiting.shift()!
      throw error
    }
    const verdict = verdictOn(evidence)
    verdict.catch(() => undefined)
    waiting.push(verdict)
    if (waiting.length >= concurrency) yield await waiting.shift()!
  }
  while (waiting.length > 0) yield await waiting.shift()!
}
