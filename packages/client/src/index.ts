/** A client for the functions of an Instar gateway that OpenAI-compatible SDKs lack. Its only dependency is `fetch`. */
export { createClient, type Client, type ClientOptions } from './client.ts'
export { answerOf, type AnswerIds } from './answer.ts'
export { InstarClientError } from './fault.ts'
export type {
  CloseOptions,
  CloseResult,
  Feedback,
  FeedbackResult,
  FeedbackOptions,
  Session,
  Status,
  Version,
} from './types.ts'
