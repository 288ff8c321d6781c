/** The OpenAPI 3.1 document, generated from the server's routes. */
import { VERSION } from '@instar/process'
import { z } from 'zod'
import type { Scope } from '../core/keys.ts'
import { COMMANDS, OPERATIONS, type Operation } from './operations.ts'
import { fault } from './schemas.ts'

/** `url`: in Fastify's syntax (`/v1/models/:id`). `scope`: set for routes of other trainers' gateways. */
export type ServedRoute = { method: string; url: string; scope: Scope | undefined }

type Json = Readonly<Record<string, unknown>>

const SESSION = '/s/{session}'

export const openApi = (routes: readonly ServedRoute[]): Json => {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    for (const path of pathsOf(route.url)) {
      const method = route.method.toLowerCase()
      const shared = path.startsWith(SESSION)
      const known = shared ? path.slice(SESSION.length) : path
      const entry = (paths[known] ??= {})
      // Any path under /v1 also exists with a session prefix: the same path at another server URL.
      if (shared)
        entry['servers'] = [
          { url: '/' },
          {
            url: SESSION,
            description: 'For clients that can set a base URL and no header.',
            variables: { session: { default: 'my-session', description: "The session's name." } },
          },
        ]
      else entry[method] = operation(route, known)
    }
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Instar',
      version: VERSION,
      description:
        "An agent's own model, which learns from the conversations it has. Fields that are not named are accepted everywhere; of the answers' shapes, the APIs' own documentation tells. Every answer names its version, turn and session in its headers. Error codes: docs/errors.md.",
    },
    servers: [{ url: '/' }],
    paths: Object.fromEntries(Object.entries(paths).toSorted(([a], [b]) => a.localeCompare(b))),
    components: {
      schemas: { Fault: schemaOf(fault) },
      responses: {
        Fault: {
          description: "A fault, in the dialect's shape. The code is one of docs/errors.md.",
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Fault' } } },
        },
      },
      headers: Object.fromEntries(
        Object.entries(HEADERS).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
      ),
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key; without keys, the machine itself needs none.',
        },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  }
}

const HEADERS: Readonly<Record<string, string>> = {
  'x-instar-version': 'The version that spoke.',
  'x-instar-turn-id': 'The turn; of several candidates the first.',
  'x-instar-turn-ids': "All candidates' turns, where there are several.",
  'x-instar-session-id': 'The session that the turn is of.',
  'x-instar-dropped-tools': 'Tools that run elsewhere and were not offered to the model.',
  'x-instar-ignored': 'Fields of the request that ask for something which is not done here.',
}

const ASKED: readonly Json[] = [
  {
    name: 'x-session-id',
    in: 'header',
    description: 'The session; what agents send already is understood too.',
    schema: { type: 'string' },
  },
  {
    name: 'x-instar-no-train',
    in: 'header',
    description: 'The turn is captured and never trained on; 0 or false: as if absent.',
    schema: { type: 'string' },
  },
  {
    name: 'x-instar-task-id',
    in: 'header',
    description:
      'The task of the episode that the session is: its turns wait for its reward (`/v1/sessions/{id}/close`).',
    schema: { type: 'string', maxLength: 200 },
  },
]

const pathsOf = (url: string): readonly string[] =>
  url === '/admin/:command' ? COMMANDS : [url.replace(/:(\w+)(?:\([^)]*\))?/g, '{$1}')]

const operation = ({ method, scope }: ServedRoute, path: string): Json => {
  const name = `${method} ${path}`
  const known = OPERATIONS[name]
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, param]) => ({
    name: param,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const common = {
    operationId: name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '_')
      .replace(/_$/, ''),
    ...securityOf(known ? known.scope : (scope ?? null)),
  }
  if (!known) {
    const open = { 'application/json': { schema: { type: 'object', additionalProperties: true } } }
    return {
      ...common,
      tags: ['other'],
      summary: 'As clients of another trainer know it',
      parameters,
      ...(method === 'POST' ? { requestBody: { content: open } } : {}),
      responses: { 200: { description: "In that trainer's shape.", content: open }, default: FAULT },
    }
  }
  const answers = known.tag === 'answers' && known.streams !== undefined
  return {
    ...common,
    tags: [known.tag],
    summary: known.summary,
    parameters: [
      ...parameters,
      ...(answers ? ASKED : []),
      ...(name === 'POST /v1/feedback'
        ? [
            {
              name: 'idempotency-key',
              in: 'header',
              description: 'The same key again is the same feedback; with another value it is refused.',
              schema: { type: 'string' },
            },
          ]
        : []),
    ],
    ...(known.body
      ? {
          requestBody: {
            required: !known.bodyOptional,
            content: { 'application/json': { schema: schemaOf(known.body) } },
          },
        }
      : {}),
    responses: responsesOf(known, answers),
  }
}

const FAULT = { $ref: '#/components/responses/Fault' } as const

const responsesOf = ({ reply, media, streams, also = {} }: Operation, answers: boolean): Json => ({
  200: {
    description: answers ? "The answer, in the API's own shape." : 'Done.',
    ...(answers
      ? {
          headers: Object.fromEntries(
            Object.keys(HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
          ),
        }
      : {}),
    content: {
      [media ?? 'application/json']: {
        schema: media ? { type: 'string' } : reply ? schemaOf(reply) : { type: 'object', additionalProperties: true },
      },
      ...(streams ? { [streams]: { schema: { type: 'string' } } } : {}),
    },
  },
  ...Object.fromEntries(
    Object.entries(also).map(([status, { description, schema }]) => [
      status,
      { description, content: { 'application/json': { schema: schemaOf(schema) } } },
    ]),
  ),
  default: FAULT,
})

const securityOf = (scope: Operation['scope']): Json => ({
  security: scope === 'none' ? [] : [{ bearer: [] }, { apiKey: [] }],
  ...(scope === null || scope === 'none'
    ? {}
    : { description: `Where there are API keys: one with the scope \`${scope}\`.` }),
})

const schemaOf = (schema: z.ZodType): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema)
  return rest
}
