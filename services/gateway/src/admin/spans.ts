/**
 * OpenTelemetry spans by the GenAI conventions: one per request, and inside it one per generated candidate and one per
 * append. Spans carry identifiers and numbers, never content. Without a registered tracer provider (`node --import …`),
 * or for a request that is not sampled, nothing is recorded.
 */
import {
  context,
  createTraceState,
  isSpanContextValid,
  propagation,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
} from '@opentelemetry/api'
import { InstarError } from '@instar/events'
import type { TokenCounts, Request } from '@instar/dialects'
import type { GeneratedPiece } from '@instar/engine/port'
import { header, type Headers } from '@instar/agents'

export type RequestSpan = {
  asked(dialect: string, model: string, request: Request): void
  admitted(facts: {
    session: string
    turns: readonly string[]
    model: string
    version: number
    kind: string
    labelSource: string
    promptTokens: number
  }): void
  /** Records the counts and the finish reason of each candidate. */
  said(counts: TokenCounts, finishes: readonly string[]): void
  /** Yields the same pieces inside a span. The engine's own outgoing calls become children of that span. */
  generating(
    pieces: AsyncIterable<GeneratedPiece>,
    of: { engine: string; turn: string; candidate: number },
  ): AsyncIterable<GeneratedPiece>
  /** Runs an append to `turns` inside a span. */
  appending(append: () => Promise<void>, turn: string): Promise<void>
  failed(error: unknown): void
  end(): void
}

const tracer = trace.getTracer('instar')

/** The active span of an HTTP instrumentation, else the parent that the request names (W3C `traceparent`). */
const parentOf = (headers: Headers): Context => {
  const active = context.active()
  if (trace.getSpan(active)) return active
  const extracted = propagation.extract(active, headers)
  return trace.getSpan(extracted)
    ? extracted
    : remoteParent(active, header(headers, 'traceparent'), header(headers, 'tracestate'))
}

/** Reads the fields of version 00 from a header of that version or a later one. */
const remoteParent = (at: Context, parent: string | null, state: string | null): Context => {
  const [, version, traceId = '', spanId = '', flags = '0', more] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(parent ?? '') ?? []
  const named = {
    traceId,
    spanId,
    traceFlags: parseInt(flags, 16) & 1,
    isRemote: true,
    ...(state === null ? {} : { traceState: createTraceState(state) }),
  }
  const valid =
    version !== undefined && version !== 'ff' && (version !== '00' || more === undefined) && isSpanContextValid(named)
  return valid ? trace.setSpanContext(at, named) : at
}

/** Returns null if the request is not recorded. */
const requestSpan = (headers: Headers): RequestSpan | null => {
  const parent = parentOf(headers)
  const span = tracer.startSpan(
    'chat',
    { kind: SpanKind.SERVER, attributes: { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'instar' } },
    parent,
  )
  if (!span.isRecording()) return null
  const here = trace.setSpan(parent, span)
  return {
    asked(dialect, model, request) {
      span.updateName(`chat ${model}`)
      set(span, {
        'instar.dialect': dialect,
        'gen_ai.request.model': model,
        'gen_ai.request.stream': request.stream,
        'gen_ai.request.choice.count': request.n,
        'gen_ai.request.temperature': request.temperature,
        'gen_ai.request.top_p': request.topP,
        'gen_ai.request.top_k': request.topK,
        'gen_ai.request.seed': request.seed,
        'gen_ai.request.max_tokens': request.maxTokens,
      })
    },
    admitted: ({ session, turns, model, version, kind, labelSource, promptTokens }) =>
      set(span, {
        'gen_ai.conversation.id': session,
        'gen_ai.response.model': model,
        'gen_ai.usage.input_tokens': promptTokens,
        'instar.version': version,
        'instar.turn.id': turns[0] ?? null,
        'instar.turn.ids': turns.length > 1 ? [...turns] : null,
        'instar.turn.kind': kind,
        'instar.turn.label_source': labelSource,
      }),
    said: ({ promptTokens, completionTokens }, finishes) =>
      set(span, {
        'gen_ai.usage.input_tokens': promptTokens,
        'gen_ai.usage.output_tokens': completionTokens,
        'gen_ai.response.finish_reasons': [...finishes],
      }),
    generating: (pieces, of) => generating(here, pieces, of),
    async appending(append, turn) {
      const step = tracer.startSpan(
        'send turns',
        {
          kind: SpanKind.PRODUCER,
          attributes: {
            'messaging.operation.name': 'send',
            'messaging.operation.type': 'send',
            'messaging.destination.name': 'turns',
            'instar.turn.id': turn,
          },
        },
        here,
      )
      await within(step, here, append)
    },
    failed: (error) => fail(span, error),
    end: () => span.end(),
  }
}

/** Runs `work` inside the span. `onFault` is called with errors that occur inside the stream. */
export const spanning = async <T>(
  headers: Headers,
  onFault: (fault: InstarError) => void,
  run: (span: RequestSpan | null, onFault: (fault: InstarError) => void) => Promise<T>,
): Promise<T> => {
  const span = requestSpan(headers)
  if (!span) return run(null, onFault)
  try {
    return await run(span, (fault) => {
      span.failed(fault)
      onFault(fault)
    })
  } catch (error) {
    span.failed(error)
    throw error
  } finally {
    span.end()
  }
}

const generating = async function* (
  parent: Context,
  pieces: AsyncIterable<GeneratedPiece>,
  { engine, turn, candidate }: { engine: string; turn: string; candidate: number },
): AsyncGenerator<GeneratedPiece, void> {
  const began = performance.now()
  const span = tracer.startSpan(
    `generate ${engine}`,
    {
      kind: SpanKind.INTERNAL,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': engine,
        'instar.turn.id': turn,
        'instar.candidate': candidate,
      },
    },
    parent,
  )
  const here = trace.setSpan(parent, span)
  const iterator = pieces[Symbol.asyncIterator]()
  let tokens = 0
  let first = true
  try {
    for (;;) {
      const next = await context.with(here, () => iterator.next())
      if (next.done) return
      const { value: piece } = next
      if (first) set(span, { 'gen_ai.response.time_to_first_chunk': (performance.now() - began) / 1000 })
      first = false
      if (piece.type === 'tokens') tokens += piece.tokens.length
      else if (piece.type === 'end')
        set(span, {
          'gen_ai.usage.output_tokens': piece.counts?.completionTokens ?? tokens,
          'gen_ai.response.finish_reasons': [piece.reason],
        })
      yield piece
    }
  } catch (error) {
    fail(span, error)
    throw error
  } finally {
    span.end()
    await iterator.return?.()
  }
}

const within = async (span: Span, parent: Context, work: () => Promise<void>): Promise<void> => {
  try {
    await context.with(trace.setSpan(parent, span), work)
  } catch (error) {
    fail(span, error)
    throw error
  } finally {
    span.end()
  }
}

const set = (span: Span, attributes: Readonly<Record<string, Attributes[string] | null>>): void => {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) span.setAttribute(name, value)
}

/** Records the error's code only: its message may quote user text. A client error does not mark the span as failed. */
const fail = (span: Span, error: unknown): void => {
  const fault = error instanceof InstarError ? error : null
  const code = fault?.code ?? 'internal'
  span.setAttribute('error.type', code)
  if ((fault?.status ?? 500) >= 500) span.setStatus({ code: SpanStatusCode.ERROR, message: code })
}
