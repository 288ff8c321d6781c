/**
 * What each surface accepts, as zod schemas: the readers beside them parse, since they say in the words of the
 * dialect what is wrong; a property test holds both to accept the same bodies.
 */
export { chatBody } from './chat.ts'
export { countTokensBody, messagesBody } from './messages.ts'
export { responsesBody } from './responses.ts'
