/** The operations of the dashboard. */
import { sampleBody } from '../../dashboard/sample.ts'
import * as lineage from './lineage-replies.ts'
import type { Operation } from './operation.ts'
import * as own from './schemas.ts'
import * as sessions from './session-replies.ts'

export const DASHBOARD: Readonly<Record<string, Operation>> = {
  'GET /v1/dashboard/now': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.nowReply,
    summary: 'What the pipeline does now: status, gauges of the services of this process',
  },
  'GET /v1/dashboard/versions': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.versionsReply,
    summary:
      'Versions with their metrics, updates, moves of the head, freezes and branches, newest first; at most 1,000 of each, or with `until` (`next` of the reply before) 200 older ones',
  },
  'GET /v1/dashboard/versions/{version}': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.versionReply,
    summary: 'A version, the limits of its gate, and the first 200 turns of its batch',
  },
  'GET /v1/dashboard/versions/{version}/turns': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.batchReply,
    summary: 'Further turns of its batch, 200 a page; `after` from `next`',
  },
  'GET /v1/dashboard/lately': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.latelyReply,
    summary: 'The newest 20 updates, moves of the head, freezes and rejected promotions; the judge of the newest score',
  },
  'GET /v1/dashboard/learning': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.learningReply,
    summary:
      'Metrics by version and the lineage; of the newest 100,000 scores and 1,000 batches: rewards, hints, judges, and turns without a score or dropped by reason, by interval of `step` seconds and by version; scores by person and by key',
  },
  'GET /v1/dashboard/callers': {
    tag: 'dashboard',
    scope: 'read',
    reply: lineage.callersReply,
    summary:
      'Scores `by` subject or key, those with most first, 50 a page; `after` from `next`. At most 1,000; a key by its id',
  },
  'GET /v1/dashboard/sessions': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.sessionsReply,
    summary:
      'Sessions, newest first, 50 a page: `subject`, `key`, `version`, `dialect`, `source`, `agent`, `reward`, `reason`, `id`; `at` and `after` from `next`',
  },
  'GET /v1/dashboard/sessions/{id}': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.sessionReply,
    summary: 'A session and its turns, 200 a page; `at` and `after` from `next`',
  },
  'GET /v1/dashboard/sessions/{id}/export': {
    tag: 'dashboard',
    scope: 'read',
    summary: 'Its answers as JSON lines that `instar import` reads. Needs the scope `read`',
    media: 'application/x-ndjson',
  },
  'GET /v1/dashboard/search': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.searchReply,
    summary:
      'Texts of the newest turns in the gateway’s index that have `text`, at most 2,000 turns and some four seconds; `at` and `after` from `next`. Needs the scope `read`',
  },
  'GET /v1/dashboard/turns/{id}': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.turnReply,
    summary: 'A turn: its score, what was learned from it, and the candidates of its request',
  },
  'GET /v1/dashboard/turns/{id}/text': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.turnTextReply,
    summary: 'What is new in its request, and its answer. Needs the scope `read`',
  },
  'GET /v1/dashboard/turns/{id}/tokens': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.turnTokensReply,
    summary: 'Its prompt from the recorded ids, and its tokens with their log-probs. Needs the scope `read`',
  },
  'GET /v1/dashboard/turns/{id}/logprobs': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.turnLogprobsReply,
    summary: 'Log-probs of its answer under `version`, once the model is idle. Needs the scope `read`',
  },
  'GET /v1/dashboard/beginnings': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.beginningsReply,
    summary:
      'By `session` (at most 50), the beginning of what was asked first, of those in the gateway’s index. Needs the scope `read`',
  },
  'GET /v1/dashboard/prompts': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.promptsReply,
    summary:
      'The newest turns with the beginning of what was asked, some 20 a page; `at` and `after` from `next`. Needs the scope `read`',
  },
  'POST /v1/dashboard/sample': {
    tag: 'dashboard',
    scope: 'inference',
    summary:
      'An answer of a version, a branch or a rejected update to a typed prompt, or to that of a turn by its recorded ids, token by token. Recorded nowhere. Needs the scope `read`, too',
    body: sampleBody,
    media: 'text/event-stream',
  },
  'GET /v1/dashboard/turns/{id}/learned': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.turnLearnedReply,
    summary:
      'What the update that was trained on it did with its tokens: importance weights, mask, teacher; once the model is idle. Needs the scope `read`',
  },
  'GET /v1/dashboard/health': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.healthReply,
    summary: 'The checks of `instar doctor` that a running gateway can make; at most 15 s old',
  },
  'GET /v1/dashboard/errors': {
    tag: 'dashboard',
    scope: 'read',
    reply: sessions.errorsReply,
    summary: 'The error codes: status, meaning, what to do',
  },
  'GET /v1/dashboard/events': {
    tag: 'dashboard',
    scope: 'read',
    summary: 'As `now`, an event at each change',
    media: 'text/event-stream',
  },
  'GET /v1/dashboard/session': {
    tag: 'dashboard',
    scope: 'none',
    summary: "The browser's session and what it may do",
    reply: sessions.sessionStateReply,
  },
  'POST /v1/dashboard/session': {
    tag: 'dashboard',
    scope: 'none',
    summary: 'Begins a session of a browser, as a cookie: with an API key, or with the code of a one-time link',
    body: own.sessionBody,
    bodyOptional: true,
    reply: sessions.sessionBegunReply,
  },
  'DELETE /v1/dashboard/session': {
    tag: 'dashboard',
    scope: 'none',
    summary: 'Ends it',
    reply: sessions.sessionEndedReply,
  },
  'GET /': { tag: 'dashboard', scope: 'none', summary: 'The dashboard (docs/dashboard.md)', media: 'text/html' },
  'GET /dashboard/*': { tag: 'dashboard', scope: 'none', summary: 'Its files', media: 'text/javascript' },
  'POST /admin/agent-key': {
    tag: 'admin',
    scope: 'admin',
    summary: 'Creates an API key for an agent (scopes inference, feedback, train), where requests need one',
    body: own.agentKeyBody,
    bodyOptional: true,
    reply: own.agentKeyReply,
  },
  'POST /admin/dashboard-link': {
    tag: 'admin',
    scope: 'admin',
    summary: 'A one-time link that opens the dashboard: with every right, or those of the API key that makes it',
    reply: own.linkReply,
  },
}
