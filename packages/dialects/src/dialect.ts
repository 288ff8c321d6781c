/** The interface of a dialect: parsing of request bodies and the formats of responses, streams and errors. Pure. */
import type { DialectName } from '@instar/events/records'
import type { InstarError } from '@instar/events/errors'
import type { AnswerFormat } from './answer-format.ts'
import type { Choice, Counts, Piece, AnswerContext, Token } from './answer.ts'
import type { Fields } from './fields.ts'
import type { Accepts } from './media.ts'
import type { RateHeaders } from './rate-headers.ts'
import type { Message, Request } from './request.ts'
import type { ToolChoice } from './tool-choice.ts'

/** One server-sent event; `event` where the dialect names its events. */
export type Frame = { event?: string; data: unknown }

/** The stream of one request. Each call gives the frames to send, in order; none may be left out. */
export type Streaming = {
  /** `tokens`: those whose text is in the piece. `idOf`: id of the turn's n-th call. */
  piece(candidate: number, piece: Piece, tokens: readonly Token[], idOf: (call: number) => string): Frame[]
  /** Ends one candidate. */
  finish(candidate: number, choice: Choice): Frame[]
  /** Ends the stream after every candidate ended. */
  end(counts: Counts): Frame[]
  /** Ends a stream that failed after frames were sent. */
  fail(fault: InstarError): Frame[]
}

export type Dialect = {
  name: DialectName
  /** Where it is served, behind /v1. */
  path: `/${string}`
  /** Ids in the body that stand for what is on our log: answers' items, a whole earlier response. */
  references(body: Fields): string[]
  /** The body with what those ids stand for in their place: the conversation that each turn's answer ended. */
  resolved(body: Fields, found: ReadonlyMap<string, Reference>): Fields
  /** The error for an id from `references` that names nothing on the log. */
  unknownReference(body: Fields, id: string): InstarError
  /**
   * Throws `bad_request` that names the field as the dialect does. `accepts`: what is taken beside texts; default:
   * nothing.
   */
  request(body: Fields, accepts?: Accepts): Request
  /** The messages of a body that was accepted once; lenient. */
  messages(body: Fields): Message[]
  whole(context: AnswerContext, request: Request, choices: readonly Choice[], counts: Counts): unknown
  stream(context: AnswerContext, request: Request): Streaming
  error(fault: InstarError, requestId: string | null): unknown
  /** Throws `bad_request`. */
  toolChoice(body: Fields): ToolChoice
  answerFormat(body: Fields): AnswerFormat
  /**
   * For an engine that takes Chat Completions: the fields beside messages and tools. `calling`: tools are offered. Throws
   * `bad_request` for a format that is none.
   */
  engineFields(request: Request, calling: boolean): Fields
  rateHeaders: RateHeaders
  /** What begins the ids of its tool calls. */
  callPrefix: 'call' | 'toolu'
  /** A frame without content; null: a comment is used instead. */
  ping: Frame | null
}

/** What an id of ours refers to: the body of the turn's request with its references resolved, and the answer. */
export type Reference = { dialect: DialectName; body: Fields; choice: Choice; turn: string; session: string }
