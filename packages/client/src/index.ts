/** A client of an Instar gateway: what an OpenAI-compatible SDK does not say. Needs `fetch` and nothing else. */
export { createClient, type Client, type ClientOptions } from './client.ts'
export { answerOf, type AnswerIds } from './answer.ts'
export { InstarClientError } from './fault.ts'
export type { Closed, Feedback, FeedbackGiven, FeedbackOptions, Session, Status, Version } from './types.ts'
