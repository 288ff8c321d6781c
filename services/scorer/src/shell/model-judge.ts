/** Asks a model for votes by chat completions. Passing faults are waited out; what cannot pass abstains. */
import { InstarError } from '@instar/events'
import { randomBytes } from 'node:crypto'
import { Backoff, sleep } from '@instar/log'
import type { LlmConfig } from '../config.ts'
import type { Evidence, Judgement } from '../core/judgement.ts'
import type { Failed } from './fallback.ts'
import { majority, parseVote, type JudgeMessage, type Vote } from '../core/llm.ts'

/**
 * `logLine`: called when the model stops giving verdicts and when it gives them again; the line never contains the
 * evidence.
 */
export type ModelPorts = {
  now: () => number
  logLine?: ((line: string) => void) | undefined
  failed?: Failed
}
export type ModelJudge = { id: string; judge(evidence: Evidence, signal: AbortSignal): Promise<Judgement> }

/** How one model is asked. */
export type AskedModel = {
  id: string
  /** For people, in the place of a subject: `The judge at http://…`. */
  name: string
  model: string
  /** JSON schema of a reply. */
  schema: object
  prompt(evidence: Evidence, nonce: string): JudgeMessage[]
  send(body: string, signal: AbortSignal): Promise<Response>
}
type ModelSettings = Pick<LlmConfig, 'votes' | 'temperature' | 'maxTokens' | 'timeoutMs' | 'giveUpMs' | 'firstRetryMs'>

/** The endpoint refused the request, and will refuse it again. Its message is dropped: it may quote the evidence. */
class Refused extends Error {
  readonly status: number
  constructor(status: number) {
    super(`status ${status}`)
    this.status = status
  }
}

const LONGEST_WAIT_MS = 30_000
/** Bytes of a reply: a verdict is short, and a judge that thinks aloud is far below this. */
const LARGEST_REPLY = 1024 * 1024
/** Statuses behind which the same request may succeed. */
const PASSES = new Set([408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529])

export const createModelJudge = (asked: AskedModel, config: ModelSettings, ports: ModelPorts): ModelJudge => {
  const { votes, temperature, maxTokens } = config
  // An endpoint that refuses the schema is not offered it again.
  let structured = true
  let trouble: string | null = null

  /** `problem` null: it has answered. What was said last is not said again. */
  const tell = (problem: string | null): void => {
    if (problem === trouble) return
    trouble = problem
    ports.logLine?.(problem === null ? 'The judge answers again.' : `${asked.name} gives no verdict: ${problem}.`)
  }

  const ask = async (
    messages: JudgeMessage[],
    seed: number,
    signal: AbortSignal,
    withSchema = structured,
  ): Promise<string> => {
    const body = {
      model: asked.model,
      messages,
      seed,
      max_tokens: maxTokens,
      temperature: votes === 1 ? 0 : temperature,
      ...(withSchema
        ? {
            response_format: {
              type: 'json_schema',
              json_schema: { name: 'verdict', strict: true, schema: asked.schema },
            },
          }
        : {}),
    }
    const response = await asked.send(
      JSON.stringify(body),
      AbortSignal.any([signal, AbortSignal.timeout(config.timeoutMs)]),
    )
    if (!response.ok) {
      await response.body?.cancel()
      if (PASSES.has(response.status))
        throw new Passing(`status ${response.status}`, retryAfter(response.headers.get('retry-after')))
      if (withSchema && (response.status === 400 || response.status === 422)) {
        // Where it refuses the same evidence without the schema, it is not the schema that it refuses.
        const said = await ask(messages, seed, signal, false)
        structured = false
        return said
      }
      throw new Refused(response.status)
    }
    const reply = JSON.parse(await bounded(response)) as { choices?: { message?: { content?: unknown } }[] } | null
    const content = reply?.choices?.[0]?.message?.content
    return typeof content === 'string' ? content : ''
  }

  const vote = async (
    evidence: Evidence,
    messages: JudgeMessage[],
    seed: number,
    signal: AbortSignal,
  ): Promise<Vote> => {
    const giveUpAt = ports.now() + config.giveUpMs
    const backoff = new Backoff({ firstMs: config.firstRetryMs, longestMs: LONGEST_WAIT_MS })
    for (;;) {
      try {
        const said = await ask(messages, seed, signal)
        tell(null)
        const parsed = parseVote(said)
        if (parsed.failed === true) ports.failed?.(evidence, false)
        return parsed
      } catch (error) {
        signal.throwIfAborted()
        const waits = ports.failed?.(evidence, isOfEndpoint(error as Error)) ?? true
        tell(
          error instanceof Refused
            ? `it refuses with status ${error.status}`
            : `${whyOf(error as Error)}; ${waits ? 'turns wait for it' : 'the reactions judge judges'}`,
        )
        if (error instanceof Refused)
          return { value: null, hint: null, note: `refused (${error.message})`, failed: true }
        const wait = backoff.next()
        const after = error instanceof Passing ? Math.max(wait, error.afterMs) : wait
        if (!waits || ports.now() + after > giveUpAt)
          return { value: null, hint: null, note: `unreachable (${whyOf(error as Error)})`, failed: true }
        await sleep(after, signal)
        signal.throwIfAborted()
      }
    }
  }

  return {
    id: asked.id,
    async judge(evidence, signal) {
      // The votes of a turn have one prompt: its prefix is computed once.
      const messages = asked.prompt(evidence, randomBytes(12).toString('hex'))
      return majority(
        await Promise.all(Array.from({ length: votes }, (_, i) => vote(evidence, messages, i + 1, signal))),
      )
    },
  }
}

/** Statuses with which a request is refused for what it asks. */
const OF_REQUEST = new Set([400, 413, 422])

/** False: the failure may come of what was asked, as of a reply without end. */
const isOfEndpoint = (error: Error): boolean =>
  error instanceof Refused ? !OF_REQUEST.has(error.status) : !(error instanceof TooLong || error instanceof SyntaxError)

/**
 * A status, a code or a kind of error, never a message: a JSON error quotes the answer. For a failed connection,
 * fetch has the code in the cause.
 */
const whyOf = (error: Error): string => {
  if (error instanceof Passing) return error.message
  if (error instanceof TooLong) return error.message
  if (error instanceof SyntaxError) return 'an answer that is not JSON'
  if (error instanceof InstarError) return error.code
  const { cause } = error
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : error.name
}

/** The reply's text. Throws TooLong, and reads no further. */
const bounded = async (response: Response): Promise<string> => {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of response.body ?? []) {
    length += piece.length
    if (length > LARGEST_REPLY) throw new TooLong(`more than ${LARGEST_REPLY} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

class TooLong extends Error {
  override readonly name = 'TooLong'
}

class Passing extends Error {
  readonly afterMs: number
  constructor(message: string, afterMs: number) {
    super(message)
    this.afterMs = afterMs
  }
}

const retryAfter = (header: string | null): number => {
  const seconds = Number(header)
  return header !== null && Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds * 1000, LONGEST_WAIT_MS) : 0
}
