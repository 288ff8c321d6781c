/** The gateway's settings, validated and frozen. Only main.ts and the CLI read the environment. */
import { LEAST_TOKEN } from '@instar/process'
import { z } from 'zod'
import { SCOPES } from './receive/core/keys.ts'

const ORIGIN = /^https?:\/\/[^/?#@\s]+$/i

const key = z.object({
  /** Public id: it appears on the log and in session ids. */
  id: z.string().regex(/^[A-Za-z0-9-]{1,32}$/),
  /** sha256 (hex) of the client's token. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  scopes: z.array(z.enum(SCOPES)).default(['inference', 'feedback', 'train']),
  expiresAt: z.number().nullable().default(null),
  requestsPerMinute: z.int().positive().nullable().default(null),
  bytesPerMinute: z.int().positive().nullable().default(null),
  concurrent: z.int().positive().nullable().default(null),
})

/**
 * The file that `instar keys` writes. Times are ISO 8601. `open`: the gateway accepts requests without keys although it
 * had keys before.
 */
export const keyFile = z.object({
  keys: z.array(
    z
      .object({
        id: key.shape.id,
        name: z.string().default(''),
        sha256: key.shape.sha256,
        scopes: key.shape.scopes,
        created_at: z.iso.datetime(),
        created_by: z.string().nullable().default(null),
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
          created_by: createdBy,
          name: __,
          ...rest
        }) => ({
          ...rest,
          createdBy,
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
  /** Allow listening beyond loopback without keys. */
  open: z.boolean().default(false),
  keys: z.array(key).default([]),
  /** The key file of `instar keys`. It may be absent. */
  keyFile: z.string().nullable().default(null),
  /**
   * Authorizes admin commands without API keys: the token, or the file that holds it and is created if missing. Without
   * either, admin commands need a key.
   */
  adminToken: z.string().min(LEAST_TOKEN).nullable().default(null),
  adminTokenFile: z.string().nullable().default(null),
  /** Origins of other sites whose pages may call the gateway (`https://app.example`). */
  origins: z.array(z.string().regex(ORIGIN)).default([]),
  /** Host names that the gateway accepts besides loopback names. */
  allowedHosts: z.array(z.string().toLowerCase()).default([]),
  policy: z
    .string()
    .regex(/^[A-Za-z0-9._-]+$/)
    .default('policy'),
  bodyLimit: z
    .int()
    .positive()
    .default(32 * 1024 * 1024),
  /** Memory in bytes for the bodies of all requests, received and parsed. A single body always fits, without earlier ones. */
  bodiesLimit: z
    .int()
    .positive()
    .default(256 * 1024 * 1024),
  /** Failed authentications per minute from one address before it is rate-limited. */
  wrongKeysPerMinute: z.int().positive().default(30),
  /** False: turns are captured but not trainable. */
  learning: z.boolean().default(true),
  /** Steps of `/submit_steps` that this gateway's engine did not sample are trainable. */
  trainUnsampled: z.boolean().default(false),
  /** Adapters that stay loaded besides those in use. */
  keepVersions: z.int().positive().default(4),
  /** After this time an adapter that is still being loaded is a problem of the status. */
  slowLoadMs: z.int().positive().max(2_147_483_647).default(10_000),
  /**
   * How long a request waits for the tail to deliver the answer that it continues, also while the log is unavailable.
   */
  tailWaitMs: z.number().nonnegative().default(60_000),
  /**
   * Milliseconds for which turns on Kafka are left to gather before they are read together. A request that continues what
   * was not read yet ends the wait.
   */
  gatherMs: z.number().nonnegative().default(250),
  /** How long an append is retried before the request fails. */
  appendPatienceMs: z.number().nonnegative().default(3000),
  /** Answers that may wait for the log at a time. */
  maxHeld: z.int().positive().default(512),
  /** Maximum number of sessions in memory. */
  sessions: z.int().positive().default(20_000),
  turns: z.int().positive().default(200_000),
  /** Days for which a conversation without a label is recognised, by the time of the log; 0: as long as it is in memory. */
  recognitionDays: z.number().nonnegative().max(3650).default(7),
  /** Bytes on the disk for the names by which it is recognised, about 55 for a name, 84 with API keys, and two names for a turn. */
  recognitionBytes: z
    .int()
    .nonnegative()
    .default(16 * 1024 ** 3),
  /** Turns whose records are cached: those of active sessions. */
  records: z.int().positive().default(1024),
  /** Bytes of the newest turns' records of all gateways, which the next requests of their sessions need. */
  recentRecordBytes: z
    .int()
    .nonnegative()
    .default(16 * 1024 ** 2),
  /** Requests that may wait for the engine. */
  maxWaiting: z.int().nonnegative().default(256),
  /** Judgements of the scorer that may wait for the model to be idle, with those that run. */
  maxJudgements: z.int().positive().default(64),
  /**
   * Judgements and background candidates wait for the model to be idle. Where requests never pause, the oldest that has
   * waited so long runs beside them; at most one begins in this time.
   */
  besideMs: z.number().positive().max(2_147_483_647).default(10_000),
  /**
   * Candidates per request, as a group for training: the answer, and others sampled while the engine is idle. 1: the
   * answer alone.
   */
  candidates: z.int().min(1).max(16).default(1),
  /** Tokens of background candidates per hour. */
  candidateTokens: z.int().positive().default(200_000),
  /** Time after which a request's background candidates are dropped. */
  candidatePatienceMs: z.number().positive().default(300_000),
  /** Connections that are open at a time; absent: as the files that the process may open allow (receive/connections.ts). */
  maxConnections: z.int().positive().optional(),
  /** Silence in a stream after which a comment is sent, or in a long command a heartbeat. */
  pingMs: z.number().positive().default(10_000),
  /** Time for a request's headers, and for the whole request, to arrive. */
  headersTimeoutMs: z.int().positive().default(30_000),
  requestTimeoutMs: z.int().positive().default(300_000),
  /** Time from a request's arrival to the end of its answer. */
  answerTimeoutMs: z.int().positive().default(3_600_000),
  /** Time after which a client that does not read its response is disconnected. */
  stalledMs: z.int().positive().default(60_000),
  /** Time for running answers to finish when the gateway stops. */
  stopGraceMs: z.number().nonnegative().default(3000),
  /** How long an admin command waits until this gateway serves its result. */
  adminWaitMs: z.number().positive().default(15_000),
  /** Level of the log on standard error, which holds codes and stack frames and never user text. */
  logLevel: z.enum(['silent', 'fatal', 'error', 'warn']).default('error'),
})

export type GatewayConfig = Readonly<z.infer<typeof schema>>
export type GatewaySettings = z.input<typeof schema>

export const gatewayConfig = (settings: GatewaySettings = {}): GatewayConfig => Object.freeze(schema.parse(settings))

/** The settings of answers. */
export const answerSettings = ({
  tailWaitMs,
  bodyLimit,
  maxWaiting,
  learning,
  answerTimeoutMs,
  pingMs,
  stalledMs,
}: GatewayConfig) => ({ tailWaitMs, bodyLimit, maxWaiting, learning, answerTimeoutMs, pingMs, stalledMs })
