/** The settings of a process, parsed once from the environment that its main.ts passes, and frozen. The names are public: docs/settings.md. */
import { ENGINE_KINDS } from '@instar/engine/kinds'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/** The model that ships. */
const TINY = fileURLToPath(new URL('../../../models/tiny', import.meta.url))

/** As Kafka names them, in any case. */
const SASL = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

const port = z.coerce.number().int().min(0).max(65535)
const seconds = z.coerce
  .number()
  .positive()
  .max(7 * 24 * 3600)
  .transform((value) => Math.ceil(1000 * value))
/** A file with one secret: its text without the white space around it. */
const secret = z.string().transform((path, context) => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    context.addIssue({ code: 'custom', message: `cannot be read (${(error as NodeJS.ErrnoException).code})` })
    return z.NEVER
  }
})
const flag = z.enum(['0', '1', 'true', 'false']).transform((text) => text === '1' || text === 'true')

/** Where the admin token of a data folder is. */
export const adminTokenIn = (data: string): string => join(data, 'admin.token')

export const PARTITIONS_FORM = `of the form turns=16,scores=8 (topics: ${TOPICS.join(', ')})`

/** Null for what is not of `PARTITIONS_FORM`. */
export const partitionsOf = (text: string): Partial<Record<Topic, number>> | null => {
  const parts = text.split(',').map((part) => /^([a-z]+)=([1-9]\d{0,4})$/.exec(part.trim()))
  return parts.every((part) => TOPICS.some((one) => one === part?.[1]))
    ? Object.fromEntries(parts.map((part) => [part?.[1], Number(part?.[2])]))
    : null
}

const ENGINE_PREFIXES = ENGINE_KINDS.map((kind) => `${kind}+`)
  .join(', ')
  .replace(/, ([^,]*)$/, ' or $1')

const environment = z
  .object({
    INSTAR_PORT: port.default(30000),
    INSTAR_HOST: z.string().default('127.0.0.1'),
    INSTAR_DATA: z.string().default('./.instar'),
    INSTAR_LOG: z
      .string()
      .regex(/^(embedded|kafka:\/\/.+)$/, 'must be `embedded` or kafka://host:port,…')
      .default('embedded'),
    INSTAR_ENGINE: z
      .string()
      .regex(
        new RegExp(`^(embedded|(${ENGINE_KINDS.join('|')})\\+https?://.+)$`),
        `must be \`embedded\`, or ${ENGINE_PREFIXES} before an http://…/v1`,
      )
      .default('embedded'),
    INSTAR_LEARN_ENGINE: z.enum(['auto', 'onnx', 'wasm', 'tfjs-node']).default('auto'),
    INSTAR_ENGINE_MODEL: z.string().optional(),
    INSTAR_ENGINE_KEY: z.string().optional(),
    INSTAR_ENGINE_ACCEPTS: z
      .string()
      .transform((text) => text.split(',').map((one) => one.trim()))
      .pipe(z.array(z.enum(['images', 'files'])))
      .optional(),
    INSTAR_ADAPTERS: z.string().optional(),
    INSTAR_MODEL: z.string().optional(),
    INSTAR_REGISTRY: z.url().optional(),
    INSTAR_REGISTRY_USERNAME: z.string().optional(),
    INSTAR_REGISTRY_PASSWORD: z.string().optional(),
    INSTAR_REGISTRY_PASSWORD_FILE: z.string().optional(),
    INSTAR_REGISTRY_CA: z.string().optional(),
    INSTAR_KAFKA_SSL: flag.optional(),
    INSTAR_KAFKA_CA: z.string().optional(),
    INSTAR_KAFKA_CERT: z.string().optional(),
    INSTAR_KAFKA_KEY: z.string().optional(),
    INSTAR_KAFKA_SASL_MECHANISM: z.string().toLowerCase().pipe(z.enum(SASL)).optional(),
    INSTAR_KAFKA_USERNAME: z.string().optional(),
    INSTAR_KAFKA_PASSWORD: z.string().optional(),
    INSTAR_KAFKA_PASSWORD_FILE: z.string().optional(),
    INSTAR_PARTITIONS: z
      .string()
      .transform(partitionsOf)
      .refine((partitions) => partitions !== null, `must be ${PARTITIONS_FORM}`)
      .optional(),
    INSTAR_REPLICATION: z.coerce.number().int().min(1).max(9).default(1),
    INSTAR_JUDGE_URL: z.url().optional(),
    INSTAR_JUDGE_MODEL: z.string().optional(),
    INSTAR_JUDGE_KEY: z.string().optional(),
    INSTAR_OPEN: flag.default(false),
    INSTAR_KEYS: z.string().optional(),
    INSTAR_KEY: z.string().optional(),
    INSTAR_ADMIN_TOKEN: z.string().min(20, 'has fewer than 20 characters').optional(),
    INSTAR_ADMIN_TOKEN_FILE: z.string().optional(),
    INSTAR_ORIGINS: z
      .string()
      .transform((text) => text.split(',').map((one) => one.trim()))
      .refine(
        (list) => list.every((one) => /^https?:\/\/[^/?#@\s]+$/i.test(one)),
        'must be origins (https://app.example) with commas between them',
      )
      .optional(),
    INSTAR_SESSION_IDLE: z.coerce
      .number()
      .positive()
      .max(30 * 24 * 3600)
      .default(600),
    INSTAR_HEALTH_PORT: port.optional(),
    INSTAR_CANDIDATES: z.coerce.number().int().min(1).max(16).optional(),
    INSTAR_CANDIDATE_TOKENS: z.coerce.number().int().positive().optional(),
    INSTAR_BODY_LIMIT: z.coerce.number().int().positive().optional(),
    INSTAR_TRAIN_UNSAMPLED: flag.default(false),
    INSTAR_BODIES_LIMIT: z.coerce.number().int().positive().optional(),
    INSTAR_REQUEST_TIMEOUT: seconds.optional(),
    INSTAR_ANSWER_TIMEOUT: seconds.optional(),
    INSTAR_PG_BIN: z.string().optional(),
    DATABASE_URL: z.string().optional(),
    DATABASE_PASSWORD_FILE: secret.optional(),
    DATABASE_READER_PASSWORD_FILE: secret.optional(),
  })
  .refine((env) => (env.INSTAR_CANDIDATES ?? 1) === 1 || env.INSTAR_JUDGE_URL !== undefined, {
    path: ['INSTAR_CANDIDATES'],
    message:
      'candidates that nobody sees need a judge, INSTAR_JUDGE_URL: the rules read only what was said to an answer',
  })
  .refine((env) => env.INSTAR_ENGINE_ACCEPTS === undefined || env.INSTAR_ENGINE.startsWith('openai+'), {
    path: ['INSTAR_ENGINE_ACCEPTS'],
    message:
      'is for an engine that takes messages, INSTAR_ENGINE=openai+…: of others we write the prompt, and that is text',
  })

const together = (path: Name, needed: Name, others: readonly Name[]): Together => ({ path, needed, others })
type Name = keyof z.infer<typeof environment>
type Together = { path: Name; needed: Name; others: readonly Name[] }

/** What says nothing without another one: `needed`, or one of `others` in its place. */
const TOGETHER: readonly Together[] = [
  together('INSTAR_KAFKA_SASL_MECHANISM', 'INSTAR_KAFKA_USERNAME', []),
  together('INSTAR_KAFKA_USERNAME', 'INSTAR_KAFKA_SASL_MECHANISM', []),
  together('INSTAR_KAFKA_USERNAME', 'INSTAR_KAFKA_PASSWORD', ['INSTAR_KAFKA_PASSWORD_FILE']),
  together('INSTAR_KAFKA_CERT', 'INSTAR_KAFKA_KEY', []),
  together('INSTAR_KAFKA_KEY', 'INSTAR_KAFKA_CERT', []),
  together('INSTAR_REGISTRY_USERNAME', 'INSTAR_REGISTRY_PASSWORD', ['INSTAR_REGISTRY_PASSWORD_FILE']),
]

export type Environment = Readonly<Record<string, string | undefined>>
export type Settings = Readonly<ReturnType<typeof build>>

/** A URL that names no password gets the file's. What is no URL is told where it is used. */
const withPassword = (url: string, password: string | undefined): string => {
  if (password === undefined || !URL.canParse(url)) return url
  const parsed = new URL(url)
  if (parsed.password === '' && !parsed.searchParams.has('password')) parsed.searchParams.set('password', password)
  return parsed.href
}

const path = (cwd: string, file: string | undefined): string | null => (file === undefined ? null : resolve(cwd, file))

const build = (env: z.infer<typeof environment>, cwd: string) => ({
  host: env.INSTAR_HOST,
  port: env.INSTAR_PORT,
  data: resolve(cwd, env.INSTAR_DATA),
  log: env.INSTAR_LOG,
  engine: env.INSTAR_ENGINE,
  /** What learns; serving has its own. */
  learnEngine: env.INSTAR_LEARN_ENGINE,
  /** What an engine behind HTTP calls the base model; null: the first that it lists. */
  engineModel: env.INSTAR_ENGINE_MODEL ?? null,
  engineKey: env.INSTAR_ENGINE_KEY ?? null,
  /** What an engine that takes messages takes beside texts. */
  engineAccepts: env.INSTAR_ENGINE_ACCEPTS ?? [],
  /** Where adapters are written for engines behind HTTP, which have to see them under the same path. */
  adapters:
    env.INSTAR_ADAPTERS === undefined
      ? join(resolve(cwd, env.INSTAR_DATA), 'adapters')
      : resolve(cwd, env.INSTAR_ADAPTERS),
  model: env.INSTAR_MODEL === undefined ? TINY : resolve(cwd, env.INSTAR_MODEL),
  /** Somebody said which model; else it is the one that ships. */
  modelNamed: env.INSTAR_MODEL !== undefined,
  registry: env.INSTAR_REGISTRY ?? null,
  /** Who asks the registry, where it wants to know; `ca`: a PEM file. */
  registryUser: {
    username: env.INSTAR_REGISTRY_USERNAME ?? null,
    password: env.INSTAR_REGISTRY_PASSWORD ?? null,
    passwordFile: path(cwd, env.INSTAR_REGISTRY_PASSWORD_FILE),
    ca: path(cwd, env.INSTAR_REGISTRY_CA),
  },
  /** How brokers are spoken to; files are PEM. A file of TLS says that it is wanted. */
  kafka: {
    ssl: env.INSTAR_KAFKA_SSL ?? (env.INSTAR_KAFKA_CA !== undefined || env.INSTAR_KAFKA_CERT !== undefined),
    ca: path(cwd, env.INSTAR_KAFKA_CA),
    cert: path(cwd, env.INSTAR_KAFKA_CERT),
    key: path(cwd, env.INSTAR_KAFKA_KEY),
    sasl:
      env.INSTAR_KAFKA_SASL_MECHANISM === undefined
        ? null
        : {
            mechanism: env.INSTAR_KAFKA_SASL_MECHANISM,
            username: env.INSTAR_KAFKA_USERNAME!,
            password: env.INSTAR_KAFKA_PASSWORD ?? null,
            passwordFile: path(cwd, env.INSTAR_KAFKA_PASSWORD_FILE),
          },
  },
  /** Partitions where they differ from the flow table's: what a log was made with, for ever. */
  partitions: env.INSTAR_PARTITIONS ?? {},
  /** Copies that Kafka keeps of each record: what `setup` makes the topics with. */
  replication: env.INSTAR_REPLICATION,
  judge:
    env.INSTAR_JUDGE_URL === undefined
      ? null
      : { url: env.INSTAR_JUDGE_URL, model: env.INSTAR_JUDGE_MODEL ?? 'default', key: env.INSTAR_JUDGE_KEY ?? null },
  open: env.INSTAR_OPEN,
  /** API keys; without the file there are none. */
  keyFile:
    env.INSTAR_KEYS === undefined ? join(resolve(cwd, env.INSTAR_DATA), 'keys.json') : resolve(cwd, env.INSTAR_KEYS),
  /** The API key that commands show a gateway; null: none. */
  key: env.INSTAR_KEY ?? null,
  /** What commands show a gateway without keys; null: what the file holds, which the gateway makes. */
  adminToken: env.INSTAR_ADMIN_TOKEN ?? null,
  adminTokenFile:
    env.INSTAR_ADMIN_TOKEN_FILE === undefined
      ? adminTokenIn(resolve(cwd, env.INSTAR_DATA))
      : resolve(cwd, env.INSTAR_ADMIN_TOKEN_FILE),
  /** Pages of other origins that may call the gateway. */
  origins: env.INSTAR_ORIGINS ?? [],
  /** After so many milliseconds without a turn a session counts as ended. */
  sessionIdleMs: Math.round(1000 * env.INSTAR_SESSION_IDLE),
  /** Of the gateway, where they are to be others than its own: bytes of a body and of all that are held, milliseconds for a request to arrive and to be answered, candidates of a request and the tokens of those that nobody sees. */
  limits: {
    ...(env.INSTAR_BODY_LIMIT === undefined ? {} : { bodyLimit: env.INSTAR_BODY_LIMIT }),
    ...(env.INSTAR_BODIES_LIMIT === undefined ? {} : { bodiesLimit: env.INSTAR_BODIES_LIMIT }),
    ...(env.INSTAR_REQUEST_TIMEOUT === undefined ? {} : { requestTimeoutMs: env.INSTAR_REQUEST_TIMEOUT }),
    ...(env.INSTAR_ANSWER_TIMEOUT === undefined ? {} : { answerTimeoutMs: env.INSTAR_ANSWER_TIMEOUT }),
    ...(env.INSTAR_TRAIN_UNSAMPLED ? { trainUnsampled: true } : {}),
    ...(env.INSTAR_CANDIDATES === undefined ? {} : { candidates: env.INSTAR_CANDIDATES }),
    ...(env.INSTAR_CANDIDATE_TOKENS === undefined ? {} : { candidateTokens: env.INSTAR_CANDIDATE_TOKENS }),
  },
  /** Where a service other than the gateway says how it is; null: nowhere. */
  healthPort: env.INSTAR_HEALTH_PORT ?? null,
  postgresPrograms: env.INSTAR_PG_BIN ?? null,
  database: env.DATABASE_URL === undefined ? null : withPassword(env.DATABASE_URL, env.DATABASE_PASSWORD_FILE),
  /** Of `instar_reader` there; null: it follows from the password of DATABASE_URL. */
  databaseReaderPassword: env.DATABASE_READER_PASSWORD_FILE ?? null,
})

/** Relative paths are of `cwd`. A variable that is empty counts as not set. Throws `bad_request` with the variable's name. */
export const readSettings = (env: Environment, cwd: string): Settings => {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''))
  const parsed = environment.safeParse(set)
  if (parsed.success) {
    const alone = TOGETHER.find(
      ({ path: name, needed, others }) =>
        set[name] !== undefined && [needed, ...others].every((one) => set[one] === undefined),
    )
    if (alone)
      throw new InstarError(
        'bad_request',
        `${alone.path} is set, ${[alone.needed, ...alone.others].join(' or ')} is not.`,
        { field: alone.needed },
      )
    return Object.freeze(build(parsed.data, cwd))
  }
  const issue = parsed.error.issues[0]
  const name = String(issue?.path[0] ?? 'The environment')
  throw new InstarError('bad_request', `${name}=${set[name] ?? ''}: ${issue?.message ?? 'not understood'}`, {
    field: name,
  })
}
