/** The gateway's settings, checked and frozen. Who reads the environment is main.ts or the CLI. */
import { z } from 'zod'
import { LEAST_TOKEN, SCOPES } from './receive/core/keys.ts'

const ORIGIN = /^https?:\/\/[^/?#@\s]+$/i

const key = z.object({
  /** Public: it is on the log and in session ids. */
  id: z.string().regex(/^[A-Za-z0-9-]{1,32}$/),
  /** sha256 (hex) of the token that the client sends. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  scopes: z.array(z.enum(SCOPES)).default(['inference', 'feedback', 'train']),
  expiresAt: z.number().nullable().default(null),
  requestsPerMinute: z.int().positive().nullable().default(null),
  bytesPerMinute: z.int().positive().nullable().default(null),
  concurrent: z.int().positive().nullable().default(null),
})

/** What `instar keys` writes; times are ISO texts. `open`: without keys the gateway is to be open, though it had some. */
export const keyFile = z.object({
  keys: z.array(
    z
      .object({
        id: key.shape.id,
        name: z.string().default(''),
        sha256: key.shape.sha256,
        scopes: key.shape.scopes,
        created_at: z.iso.datetime(),
        expires_at: z.iso.datetime().nullable().default(null),
        requests_per_minute: key.shape.requestsPerMinute,
        bytes_per_minute: key.shape.bytesPerMinute,
        concurrent: key.shape.concurrent,
      })
      .transform(
        ({
          expires_at: expires,
          requests_per_minute: requestsPerMinute,
          bytes_per_minute: bytesPerMinute,
          created_at: _,
          name: __,
          ...rest
        }) => ({
          ...rest,
          requestsPerMinute,
          bytesPerMinute,
          expiresAt: expires === null ? null : Date.parse(expires),
        }),
      ),
  ),
  open: z.boolean().default(false),
})

const schema = z.object({
  host: z.string().default('127.0.0.1'),
  port: z.int().min(0).max(65535).default(30000),
  /** Listen beyond loopback without keys. */
  open: z.boolean().default(false),
  keys: z.array(key).default([]),
  /** The file of `instar keys`; it need not be there. */
  keyFile: z.string().nullable().default(null),
  /** What commands need without keys: the token, or the file that holds it and is made where it is missing. Neither: no command without a key. */
  adminToken: z.string().min(LEAST_TOKEN).nullable().default(null),
  adminTokenFile: z.string().nullable().default(null),
  /** Pages of other origins that may call (`https://app.example`). */
  origins: z.array(z.string().regex(ORIGIN)).default([]),
  /** Names by which the gateway may be called besides loopback ones. */
  allowedHosts: z.array(z.string().toLowerCase()).default([]),
  policy: z
    .string()
    .regex(/^[A-Za-z0-9._-]+$/)
    .default('policy'),
  bodyLimit: z
    .int()
    .positive()
    .default(32 * 1024 * 1024),
  /** Bytes of memory that bodies take at a time, as they came and parsed, of all requests together; one body always fits. */
  bodiesLimit: z
    .int()
    .positive()
    .default(256 * 1024 * 1024),
  /** Wrong keys or tokens from one address in a minute, before it is slowed. */
  wrongKeysPerMinute: z.int().positive().default(30),
  /** False: turns are captured, none is trained on. */
  learning: z.boolean().default(true),
  /** Steps of `/submit_steps` that our engine was not seen to draw are learned from too. */
  trainUnsampled: z.boolean().default(false),
  /** Adapters that stay loaded besides those in use. */
  keepVersions: z.int().positive().default(4),
  /** How long a request waits for the log's tail to bring the answer that it continues; while the log is away it is held. */
  tailWaitMs: z.number().nonnegative().default(60_000),
  /** How long an answer waits for the log before it is given up. */
  appendPatienceMs: z.number().nonnegative().default(3000),
  /** Answers that may wait for the log at a time, their clients with them. */
  maxHeld: z.int().positive().default(512),
  /** Sessions and turns that are remembered. */
  sessions: z.int().positive().default(20_000),
  turns: z.int().positive().default(200_000),
  /** Turns whose records stay in memory: those of the sessions that are being talked in. */
  records: z.int().positive().default(1024),
  /** Requests that may wait for the engine. */
  maxWaiting: z.int().nonnegative().default(256),
  /** Candidates of each request, as a group to learn from: the answer, and others sampled when nobody waits. 1: the answer alone. */
  candidates: z.int().min(1).max(16).default(1),
  /** Tokens of such candidates in an hour. */
  candidateTokens: z.int().positive().default(200_000),
  /** After which those of a request are given up. */
  candidatePatienceMs: z.number().positive().default(300_000),
  /** Silence in a stream after which a comment keeps the connection open, in a long command a heartbeat. */
  pingMs: z.number().positive().default(10_000),
  /** How long a request's headers, and all of it, may take to arrive. */
  headersTimeoutMs: z.int().positive().default(30_000),
  requestTimeoutMs: z.int().positive().default(300_000),
  /** How long a request may take from its arrival to the end of its answer. */
  answerTimeoutMs: z.int().positive().default(3_600_000),
  /** How long a client may take nothing of what waits for it before its connection is cut. */
  stalledMs: z.int().positive().default(60_000),
  /** How long running answers may go on when the gateway stops. */
  stopGraceMs: z.number().nonnegative().default(3000),
  /** How long an admin command waits until its result is served here. */
  adminWaitMs: z.number().positive().default(15_000),
  /** On standard error; code and place of a fault, never what a person wrote. */
  logLevel: z.enum(['silent', 'fatal', 'error', 'warn']).default('error'),
})

export type GatewayConfig = Readonly<z.infer<typeof schema>>
export type GatewaySettings = z.input<typeof schema>

export const gatewayConfig = (settings: GatewaySettings = {}): GatewayConfig => Object.freeze(schema.parse(settings))
