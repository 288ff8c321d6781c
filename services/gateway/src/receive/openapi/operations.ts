/** Describes each operation. The paths are those of the server's routes: document.ts. */
import { chatBody, countTokensBody, messagesBody, responsesBody } from '@instar/dialects/schemas'
import { DASHBOARD } from './dashboard.ts'
import type { Operation } from './operation.ts'
import * as own from './schemas.ts'

export type { Operation }

/** By method and path as in the server's routes, without a prefix of `/v1`. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  'POST /v1/chat/completions': {
    tag: 'answers',
    scope: 'inference',
    summary: 'Chat Completions',
    body: chatBody,
    streams: 'text/event-stream',
  },
  'POST /v1/responses': {
    tag: 'answers',
    scope: 'inference',
    summary: 'Responses: kept on the log, so that items and whole responses may be referred to',
    body: responsesBody,
    streams: 'text/event-stream',
  },
  'GET /v1/responses/{id}': {
    tag: 'answers',
    scope: 'inference',
    summary: 'A response again, as it was given; not one that was asked for with `store: false`',
  },
  'DELETE /v1/responses/{id}': {
    tag: 'answers',
    scope: 'inference',
    summary: 'Not given by its id any more; it stays on the log',
  },
  'GET /v1/responses/{id}/input_items': {
    tag: 'answers',
    scope: 'inference',
    summary: 'The items that it answers; `order`, `limit`, `after`',
    reply: own.itemsReply,
  },
  'POST /v1/responses/{id}/cancel': {
    tag: 'answers',
    scope: 'inference',
    summary: 'Refused: none runs in the background',
  },
  'POST /v1/responses/input_tokens': {
    tag: 'answers',
    scope: 'inference',
    summary: 'How many tokens a request to `/v1/responses` has',
    reply: own.responseTokensReply,
  },
  'POST /v1/embeddings': {
    tag: 'answers',
    scope: 'inference',
    summary: "Embeddings, where the engine is one of OpenAI's interface that has them. Not captured",
    body: own.embeddingBody,
  },
  'POST /v1/completions': {
    tag: 'answers',
    scope: 'inference',
    summary: 'A text, or ids of tokens, go on; with `echo` and `logprobs` those of the prompt too. Not captured',
    body: own.completionBody,
    streams: 'text/event-stream',
  },
  'POST /v1/messages': {
    tag: 'answers',
    scope: 'inference',
    summary: 'Anthropic Messages',
    body: messagesBody,
    streams: 'text/event-stream',
  },
  'POST /v1/messages/count_tokens': {
    tag: 'answers',
    scope: null,
    summary: 'How many tokens a prompt has',
    body: countTokensBody,
    reply: own.tokensReply,
  },
  'POST /v1/feedback': {
    tag: 'sessions',
    scope: 'feedback',
    summary: 'What somebody says of a turn; it outranks every judge',
    body: own.feedbackBody,
    reply: own.feedbackReply,
  },
  'POST /v1/sessions/{id}/close': {
    tag: 'sessions',
    scope: 'feedback',
    summary: 'Nothing follows in a session, and how it went as an episode. The body may be absent',
    body: own.closingBody,
    reply: own.closingReply,
  },
  'GET /v1/models': {
    tag: 'models',
    scope: null,
    summary: 'The policy, and its versions: the base and the newest',
    reply: own.modelsReply,
  },
  'GET /v1/models/{id}': { tag: 'models', scope: null, summary: 'One of them', reply: own.modelReply },
  'HEAD /api/hello': { tag: 'health', scope: null, summary: 'Whether somebody is there; Claude Code asks' },
  'GET /health/live': { tag: 'health', scope: 'none', summary: 'The process runs', reply: own.liveReply },
  'GET /health/ready': {
    tag: 'health',
    scope: 'none',
    summary: 'It can answer',
    reply: own.readyReply,
    also: { 503: { description: 'Why it cannot.', schema: own.unreadyReply } },
  },
  'GET /health/admin-proof': {
    tag: 'health',
    scope: 'none',
    summary:
      'That it knows the admin token of its data folder, for a connection and a `nonce` of 32 bytes in base64url',
    reply: own.proofReply,
  },
  'GET /metrics': {
    tag: 'health',
    scope: 'admin',
    summary: "Metrics in Prometheus's text format (docs/metrics.md)",
    media: 'text/plain',
  },
  ...DASHBOARD,
  'GET /openapi.json': { tag: 'health', scope: null, summary: 'This document' },
  'GET /admin/status': {
    tag: 'admin',
    scope: 'admin',
    summary: 'What is served, what is loaded, what waits',
    reply: own.statusReply,
  },
  'GET /admin/requests': {
    tag: 'admin',
    scope: 'admin',
    summary: 'The last requests: what names their sessions, how they were understood',
    reply: own.requestsReply,
  },
  'POST /admin/judge/chat/completions': {
    tag: 'admin',
    scope: 'admin',
    summary: 'The base weights answer the scorer as a judge, while no request runs; nothing of it is on the log',
    body: chatBody,
  },
  'POST /admin/rollback': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Moves the head to an accepted version and freezes learning; answers when this gateway serves it',
    body: own.rollbackBody,
    reply: own.commandReply,
  },
  'POST /admin/freeze': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Learning stops',
    body: own.freezeBody,
    bodyOptional: true,
    reply: own.commandReply,
  },
  'POST /admin/thaw': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Learning goes on',
    body: own.freezeBody,
    bodyOptional: true,
    reply: own.commandReply,
  },
  'POST /admin/served': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Answers when this gateway serves the head',
    body: own.servedBody,
    bodyOptional: true,
    reply: own.commandReply,
  },
  'POST /admin/promote': {
    tag: 'admin',
    scope: 'admin',
    summary: "Puts a branch's last version through the gate",
    body: own.promoteBody,
    reply: own.commandReply,
  },
  'POST /admin/replay': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Trains from history onto a branch, line by line: progress, then the report',
    body: own.replayBody,
    streams: 'application/x-ndjson',
  },
}

/** The commands that `/admin/:command` stands for. */
export const COMMANDS: readonly string[] = Object.keys(OPERATIONS).flatMap(
  (name) => /^POST (\/admin\/\w+)$/.exec(name)?.[1] ?? [],
)
