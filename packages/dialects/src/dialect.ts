/** The interface of a dialect: parsing of request bodies, and the formats of responses, streams and errors. */
import type { DialectName } from '@instar/events/records'
import type { InstarError } from '@instar/events/errors'
import type { AnswerFormat } from './answer-format.ts'
import type { Choice, TokenCounts, Piece, AnswerContext, Token } from './answer.ts'
import type { Fields } from './fields.ts'
import type { AcceptedMedia } from './media.ts'
import type { RateHeaders } from './rate-headers.ts'
import type { Message, Request } from './request.ts'
import type { ToolChoice } from './tool-choice.ts'

/** One server-sent event; `event` is set in dialects with named events. */
export type Frame = { event?: string; data: unknown }

/** Encodes one streamed response. Every method returns the frames to send next, in order; all must be sent. */
export type StreamEncoder = {
  /** `candidate`: index from 0. `tokens`: those of the piece. `idOf`: the id of the candidate's n-th tool call. */
  piece(candidate: number, piece: Piece, tokens: readonly Token[], idOf: (call: number) => string): Frame[]
  /** Ends one candidate. */
  finish(candidate: number, choice: Choice): Frame[]
  /** Ends the stream after every candidate ended. */
  end(counts: TokenCounts): Frame[]
  /** Ends a stream that failed after frames were sent. */
  fail(fault: InstarError): Frame[]
}

export type Dialect = {
  name: DialectName
  /** The path of its route, without the leading `/v1`. */
  path: `/${string}`
  /** The ids in the body that refer to records on the log: items of answers, earlier responses. */
  references(body: Fields): string[]
  /** The body with each id replaced by the conversation or item that it refers to. `found`: by id. */
  resolved(body: Fields, found: ReadonlyMap<string, Reference>): Fields
  /** The error for an id from `references` that is not on the log. */
  unknownReference(body: Fields, id: string): InstarError
  /** Throws `bad_request` with the path of the field. `accepts`: media accepted besides text; default: none. */
  request(body: Fields, accepts?: AcceptedMedia): Request
  /** The messages of a stored body, validated when it was received. Invalid parts are skipped, never thrown. */
  messages(body: Fields): Message[]
  whole(context: AnswerContext, request: Request, choices: readonly Choice[], counts: TokenCounts): unknown
  stream(context: AnswerContext, request: Request): StreamEncoder
  error(fault: InstarError, requestId: string | null): unknown
  /** Throws `bad_request`. */
  toolChoice(body: Fields): ToolChoice
  answerFormat(body: Fields): AnswerFormat
  /**
   * The fields besides messages and tools for an engine with the Chat Completions API. `calling`: the request offers
   * tools. Throws `bad_request` if the answer format is invalid.
   */
  engineFields(request: Request, calling: boolean): Fields
  rateHeaders: RateHeaders
  /** The prefix of the ids of its tool calls. */
  callPrefix: 'call' | 'toolu'
  /** The keep-alive event; null: the stream uses an SSE comment. */
  ping: Frame | null
}

/** The turn that a minted id refers to: its request body with references resolved, and its answer. */
export type Reference = { dialect: DialectName; body: Fields; choice: Choice; turn: string; session: string }
