/** The environment variables of a process and their validation. Their names are public (docs/settings.md). */
import { ENGINE_KINDS } from '@instar/engine/kinds'
import { TOPICS, type Topic } from '@instar/events/flow'
import { readRegularFile } from '@instar/events/regular-file'
import { join } from 'node:path'
import { z } from 'zod'
import { CHECKPOINTED } from './metrics/labels.ts'

/** SASL mechanisms by their names in Kafka; upper and lower case are accepted. */
const SASL = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

const port = z.coerce.number().int().min(0).max(65535)
/** Seconds, at most a week; parsed to milliseconds. */
const seconds = z.coerce
  .number()
  .positive()
  .max(7 * 24 * 3600)
  .transform((value) => Math.ceil(1000 * value))
/** Bytes of a file with a secret. */
const MOST_SECRET_BYTES = 64 * 1024
/** The path of a file with a secret; parsed to its text without surrounding white space. */
const secret = z.string().transform((path, context) => {
  try {
    return readRegularFile(path, MOST_SECRET_BYTES).toString('utf8').trim()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    context.addIssue({ code: 'custom', message: `cannot be read (${code ?? message})` })
    return z.NEVER
  }
})
const flag = z.enum(['0', '1', 'true', 'false']).transform((text) => text === '1' || text === 'true')

/** Minimum length of an admin token in characters; a shorter one could be guessed. */
export const LEAST_TOKEN = 20

/** The default file of the admin token in a data folder. */
export const adminTokenIn = (data: string): string => join(data, 'admin.token')

export const PARTITIONS_FORM = `of the form turns=16,scores=8 (topics: ${TOPICS.join(', ')})`

/** Numbers of partitions by topic; null for text that is not of `PARTITIONS_FORM`. */
export const partitionsOf = (text: string): Partial<Record<Topic, number>> | null => {
  const parts = text.split(',').map((part) => /^([a-z]+)=([1-9]\d{0,4})$/.exec(part.trim()))
  return parts.every((part) => TOPICS.some((topic) => topic === part?.[1]))
    ? Object.fromEntries(parts.map((part) => [part?.[1], Number(part?.[2])]))
    : null
}

/** Variables with a secret; a file of secrets is named in others. */
const SECRETS = /^(DATABASE_URL|.*_(KEY|TOKEN|PASSWORD))$/
const MAX_SHOWN = 200

/**
 * The variable as a message shows it: without the value of a secret, without the user of a URL (the text up to the last
 * `@`) and without its query, which may hold a key.
 */
export const shownVariable = (name: string, value: string): string => {
  if (SECRETS.test(name)) return name
  const text = value.replace(/^.*@/s, '…@').replace(/\?.*$/s, '?…')
  return `${name}=${text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text}`
}

const ENGINE_PREFIXES = ENGINE_KINDS.map((kind) => `${kind}+`)
  .join(', ')
  .replace(/, ([^,]*)$/, ' or $1')

/** A user in a URL: messages and records show it, and no request would send it. */
const hasUser = (value: string): boolean => /\/\/[^/?#]*@/.test(value)
const withoutUser = (instead: string) => ({
  check: (value: string) => !hasUser(value),
  message: `contains a user, and messages show this address; set ${instead} instead`,
})
const engineAddress = withoutUser('INSTAR_ENGINE_KEY')
const TRAINER_FORM = 'must be `embedded`, or tinker+ followed by http://HOST:PORT'
const trainerAddress = withoutUser('INSTAR_TRAINER_KEY')
const judgeAddress = withoutUser('INSTAR_JUDGE_KEY')
const gatewayAddress = withoutUser('INSTAR_KEY')
const logAddress = withoutUser('INSTAR_KAFKA_USERNAME and INSTAR_KAFKA_PASSWORD')

export const environment = z
  .object({
    INSTAR_PORT: port.default(30000),
    INSTAR_HOST: z.string().default('127.0.0.1'),
    INSTAR_DATA: z.string().default('./.instar'),
    INSTAR_CHECKPOINTS: z.string().optional(),
    INSTAR_CHECKPOINT_TURNS: z.coerce.number().int().positive().max(Number.MAX_SAFE_INTEGER).optional(),
    INSTAR_CHECKPOINT_HOURS: z.coerce.number().positive().max(8760).optional(),
    INSTAR_CHECKPOINT_STATES: z
      .string()
      .transform((text) => text.split(',').map((item) => item.trim()))
      .pipe(z.array(z.enum(CHECKPOINTED)))
      .default(['scorer', 'trainer', 'publisher', 'gateway']),
    INSTAR_CHECKPOINTS_KEPT: z.coerce.number().int().min(1).max(100).default(2),
    INSTAR_CHECKPOINTS_BYTES: z.coerce
      .number()
      .int()
      .positive()
      .default(16 * 2 ** 30),
    INSTAR_ARCHIVE: z.string().optional(),
    INSTAR_LOG: z
      .string()
      .regex(/^(embedded|kafka:\/\/.+)$/, 'must be `embedded` or kafka://host:port,…')
      .refine(logAddress.check, logAddress.message)
      .default('embedded'),
    INSTAR_ENGINE: z
      .string()
      .regex(
        new RegExp(`^(embedded|(${ENGINE_KINDS.join('|')})\\+https?://.+)$`),
        `must be \`embedded\`, or ${ENGINE_PREFIXES} followed by http://…/v1`,
      )
      .refine(engineAddress.check, engineAddress.message)
      .default('embedded'),
    INSTAR_LEARN_ENGINE: z.enum(['auto', 'onnx', 'wasm', 'tfjs-node']).default('auto'),
    INSTAR_TRAINER: z
      .string()
      .regex(/^(embedded|tinker\+https?:\/\/.+)$/, TRAINER_FORM)
      .refine((value) => value === 'embedded' || URL.canParse(value.replace(/^tinker\+/, '')), TRAINER_FORM)
      .refine(trainerAddress.check, trainerAddress.message)
      .optional(),
    INSTAR_TRAINER_MODEL: z.string().optional(),
    INSTAR_TRAINER_KEY: z.string().optional(),
    INSTAR_ENGINE_MODEL: z.string().optional(),
    INSTAR_ENGINE_KEY: z.string().optional(),
    INSTAR_ENGINE_ACCEPTS: z
      .string()
      .transform((text) => text.split(',').map((item) => item.trim()))
      .pipe(z.array(z.enum(['images', 'files'])))
      .optional(),
    INSTAR_ADAPTERS: z.string().optional(),
    INSTAR_MODEL: z.string().optional(),
    INSTAR_BASE_ADAPTER: z.string().optional(),
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
    INSTAR_JUDGE: z.string().optional(),
    INSTAR_JUDGE_URL: z.url().refine(judgeAddress.check, judgeAddress.message).optional(),
    INSTAR_JUDGE_MODEL: z.string().optional(),
    INSTAR_JUDGE_KEY: z.string().optional(),
    INSTAR_GATEWAY: z.url().refine(gatewayAddress.check, gatewayAddress.message).optional(),
    INSTAR_SETTINGS: z.string().optional(),
    INSTAR_OPEN: flag.default(false),
    INSTAR_KEYS: z.string().optional(),
    INSTAR_KEY: z.string().optional(),
    INSTAR_ADMIN_TOKEN: z.string().min(LEAST_TOKEN, `has fewer than ${LEAST_TOKEN} characters`).optional(),
    INSTAR_ADMIN_TOKEN_FILE: z.string().optional(),
    INSTAR_ORIGINS: z
      .string()
      .transform((text) => text.split(',').map((item) => item.trim()))
      .refine(
        (list) => list.every((origin) => /^https?:\/\/[^/?#@\s]+$/i.test(origin)),
        'must be a comma-separated list of origins such as https://app.example',
      )
      .optional(),
    INSTAR_SESSION_IDLE: z.coerce
      .number()
      .positive()
      .max(30 * 24 * 3600)
      .optional(),
    INSTAR_HEALTH_PORT: port.optional(),
    INSTAR_CANDIDATES: z.coerce.number().int().min(1).max(16).optional(),
    INSTAR_CANDIDATE_TOKENS: z.coerce.number().int().positive().optional(),
    INSTAR_BODY_LIMIT: z.coerce.number().int().positive().optional(),
    INSTAR_TRAIN_UNSAMPLED: flag.default(false),
    INSTAR_BODIES_LIMIT: z.coerce.number().int().positive().optional(),
    INSTAR_RECOGNITION_DAYS: z.coerce.number().nonnegative().max(3650).optional(),
    INSTAR_RECOGNITION_BYTES: z.coerce.number().int().nonnegative().optional(),
    INSTAR_REQUEST_TIMEOUT: seconds.optional(),
    INSTAR_ANSWER_TIMEOUT: seconds.optional(),
    INSTAR_PG_BIN: z.string().optional(),
    DATABASE_URL: z.string().optional(),
    DATABASE_PASSWORD_FILE: secret.optional(),
    DATABASE_READER_PASSWORD_FILE: secret.optional(),
  })
  .refine(
    ({ INSTAR_CANDIDATES: candidates = 1, INSTAR_JUDGE: judge, INSTAR_JUDGE_URL: url }) =>
      candidates === 1 || url !== undefined || judge === 'self',
    {
      path: ['INSTAR_CANDIDATES'],
      message:
        'requires a model as judge (INSTAR_JUDGE_URL, or INSTAR_JUDGE=self): the reactions judge scores an answer by the reaction to it, and background candidates get none',
    },
  )
  .refine((env) => env.INSTAR_ENGINE_ACCEPTS === undefined || env.INSTAR_ENGINE.startsWith('openai+'), {
    path: ['INSTAR_ENGINE_ACCEPTS'],
    message:
      'requires an engine that takes messages (INSTAR_ENGINE=openai+…); for other engines the gateway renders the prompt, which is text only',
  })

export type ParsedEnvironment = z.infer<typeof environment>
type Name = keyof ParsedEnvironment

const requires = (path: Name, ...required: readonly Name[]): Requirement => ({ path, required })
type Requirement = { path: Name; required: readonly Name[] }

/** A variable that is set requires one of the `required` variables. */
export const REQUIREMENTS: readonly Requirement[] = [
  requires('INSTAR_KAFKA_SASL_MECHANISM', 'INSTAR_KAFKA_USERNAME'),
  requires('INSTAR_KAFKA_USERNAME', 'INSTAR_KAFKA_SASL_MECHANISM'),
  requires('INSTAR_KAFKA_USERNAME', 'INSTAR_KAFKA_PASSWORD', 'INSTAR_KAFKA_PASSWORD_FILE'),
  requires('INSTAR_KAFKA_CERT', 'INSTAR_KAFKA_KEY'),
  requires('INSTAR_KAFKA_KEY', 'INSTAR_KAFKA_CERT'),
  requires('INSTAR_REGISTRY_USERNAME', 'INSTAR_REGISTRY_PASSWORD', 'INSTAR_REGISTRY_PASSWORD_FILE'),
]
