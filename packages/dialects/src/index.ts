export type { Call, Choice, TokenCounts, FinishReason, Piece, ParsedAnswer, AnswerContext, Token } from './answer.ts'
export { ANY_OBJECT, jsonFormat } from './answer-format.ts'
export type { Dialect, Frame, Reference } from './dialect.ts'
export { DIALECTS, dialectOf } from './dialects.ts'
export { asInstarError, streamMessage } from './faults.ts'
export { fieldsOf, flag, integer, isFields, number, stopsOf, text, topP, wrong, type Fields } from './fields.ts'
export type { AcceptedMedia } from './media.ts'
export { AnswerParser, type ParserOptions } from './markup/parser.ts'
export { parseAnswer, type Answer } from './markup/whole.ts'
export {
  mintedIdsInText,
  mintCallId,
  mintId,
  parseMintedId,
  mintedIdsIn,
  sessionIdPart,
  digitsOfTurn,
  turnDigits,
  turnIdPart,
  type MintedId,
} from './minted.ts'
export { parsedBytes, parseJson, type Message, type Request } from './request.ts'
export type { RateLimitState } from './rate-headers.ts'
export { withHint } from './with-hint.ts'
export { reweightingOf } from './reweighting.ts'
export { itemPage, type ItemPage } from './responses/input-items.ts'
export { lastAnswer } from './last-answer.ts'
export { sessionOfMetadata } from './messages/index.ts'
export { chatError } from './chat/answer.ts'
