/**
 * The request bodies as zod schemas, for the OpenAPI document. Requests are parsed by each dialect's `request`, whose
 * errors name fields as the dialect does. A property test verifies that both accept the same bodies.
 */
export { chatBody } from './chat.ts'
export { countTokensBody, messagesBody } from './messages.ts'
export { responsesBody } from './responses.ts'
