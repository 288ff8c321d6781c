/** The settings of a process: parsed once from the environment that its main.ts passes, and frozen. */
import { InstarError } from '@instar/events/errors'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArchivePlace, type ArchivePlace } from './archive-place.ts'
import { adminTokenIn, environment, REQUIREMENTS, shownVariable, type ParsedEnvironment } from './environment.ts'
import type { EnvironmentValue } from './learning/resolve.ts'
import type { SettingsSource } from './learning/settings-file.ts'

/** The model that is part of the distribution. */
const TINY = fileURLToPath(new URL('../../../models/tiny', import.meta.url))

export type Environment = Readonly<Record<string, string | undefined>>
export type Settings = Readonly<ReturnType<typeof settingsOf> & { archive: ArchivePlace | null }>

/**
 * `cwd`: relative paths are resolved against it. An empty variable counts as not set. Throws `bad_request` with the
 * name of the variable in `details.field`.
 */
export const readSettings = (env: Environment, cwd: string): Settings => {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''))
  const parsed = environment.safeParse(set)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const name = String(issue?.path[0] ?? 'The environment')
    throw new InstarError(
      'bad_request',
      `${shownVariable(name, set[name] ?? '')}: ${issue?.message ?? 'invalid value'}`,
      {
        field: name,
      },
    )
  }
  const unmet = REQUIREMENTS.find(
    ({ path: name, required }) => set[name] !== undefined && required.every((other) => set[other] === undefined),
  )
  if (unmet)
    throw new InstarError('bad_request', `${unmet.path} requires ${unmet.required.join(' or ')}, which is not set.`, {
      field: unmet.required[0],
    })
  return Object.freeze({ ...settingsOf(parsed.data, cwd), archive: archiveOf(parsed.data, set, cwd) })
}

const settingsOf = (env: ParsedEnvironment, cwd: string) => {
  const data = resolve(cwd, env.INSTAR_DATA)
  return {
    data,
    /** The folder of the files of checkpoints. */
    checkpoints: pathOf(cwd, env.INSTAR_CHECKPOINTS) ?? join(data, 'checkpoints'),
    /** What a running pipeline writes there; turns and ms null: nothing. Of each state so many files and bytes stay. */
    checkpointing: {
      turns: env.INSTAR_CHECKPOINT_TURNS ?? null,
      ms: env.INSTAR_CHECKPOINT_HOURS === undefined ? null : Math.round(3_600_000 * env.INSTAR_CHECKPOINT_HOURS),
      states: env.INSTAR_CHECKPOINT_STATES,
      kept: env.INSTAR_CHECKPOINTS_KEPT,
      bytes: env.INSTAR_CHECKPOINTS_BYTES,
    },
    ...serverSettings(env, cwd, data),
    ...engineSettings(env, cwd, data),
    ...logSettings(env, cwd),
    ...databaseSettings(env),
    learning: { source: sourceOf(env.INSTAR_SETTINGS, cwd), environment: learningEnvironment(env) },
    /** INSTAR_JUDGE; null: not set. */
    judgeName: env.INSTAR_JUDGE ?? null,
    judge:
      env.INSTAR_JUDGE_URL === undefined
        ? null
        : { url: env.INSTAR_JUDGE_URL, model: env.INSTAR_JUDGE_MODEL ?? 'default', key: env.INSTAR_JUDGE_KEY ?? null },
  }
}

/** The HTTP server of the gateway, access to it, and its limits; health ports of the other services. */
const serverSettings = (env: ParsedEnvironment, cwd: string, data: string) => ({
  host: env.INSTAR_HOST,
  port: env.INSTAR_PORT,
  /** The health port of a service other than the gateway; null: none. */
  healthPort: env.INSTAR_HEALTH_PORT ?? null,
  open: env.INSTAR_OPEN,
  /** The file of the API keys. */
  keyFile: pathOf(cwd, env.INSTAR_KEYS) ?? join(data, 'keys.json'),
  /** The gateway that a scorer of its own asks where the base weights judge. */
  gatewayUrl: env.INSTAR_GATEWAY ?? `http://127.0.0.1:${env.INSTAR_PORT}`,
  /** The API key that commands send to a gateway; null: none. */
  key: env.INSTAR_KEY ?? null,
  /**
   * The admin token of a gateway without API keys; null: the content of `adminTokenFile`, which the gateway creates.
   */
  adminToken: env.INSTAR_ADMIN_TOKEN ?? null,
  adminTokenFile: pathOf(cwd, env.INSTAR_ADMIN_TOKEN_FILE) ?? adminTokenIn(data),
  /** Origins of web pages that may call the gateway. */
  origins: env.INSTAR_ORIGINS ?? [],
  /** Milliseconds without a turn after which a session counts as ended. */
  sessionIdleMs: Math.round(1000 * (env.INSTAR_SESSION_IDLE ?? 600)),
  /**
   * Limits of the gateway that differ from its defaults: bytes of a body and of all bodies in memory; milliseconds for
   * a request to arrive and to be answered; candidates per request, and tokens per hour of background candidates.
   */
  limits: withoutUndefined({
    bodyLimit: env.INSTAR_BODY_LIMIT,
    bodiesLimit: env.INSTAR_BODIES_LIMIT,
    recognitionDays: env.INSTAR_RECOGNITION_DAYS,
    recognitionBytes: env.INSTAR_RECOGNITION_BYTES,
    requestTimeoutMs: env.INSTAR_REQUEST_TIMEOUT,
    answerTimeoutMs: env.INSTAR_ANSWER_TIMEOUT,
    trainUnsampled: env.INSTAR_TRAIN_UNSAMPLED || undefined,
    candidates: env.INSTAR_CANDIDATES,
    candidateTokens: env.INSTAR_CANDIDATE_TOKENS,
  }),
})

/** The engines and the model. */
const engineSettings = (env: ParsedEnvironment, cwd: string, data: string) => ({
  engine: env.INSTAR_ENGINE,
  /** The engine that computes updates; serving has its own. */
  learnEngine: env.INSTAR_LEARN_ENGINE,
  /** The name of the base model in a remote engine; null: the first model that it lists. */
  engineModel: env.INSTAR_ENGINE_MODEL ?? null,
  engineKey: env.INSTAR_ENGINE_KEY ?? null,
  /** The content types that an engine that takes messages accepts besides text. */
  engineAccepts: env.INSTAR_ENGINE_ACCEPTS ?? [],
  /** The folder of adapters for remote engines, which must see it under the same path. */
  adapters: pathOf(cwd, env.INSTAR_ADAPTERS) ?? join(data, 'adapters'),
  model: pathOf(cwd, env.INSTAR_MODEL) ?? TINY,
  /** The folder of a LoRA adapter with which a new line starts; null: it starts with the model alone. */
  baseAdapter: pathOf(cwd, env.INSTAR_BASE_ADAPTER),
  /** Whether INSTAR_MODEL is set; else `model` is the one of the distribution. */
  modelNamed: env.INSTAR_MODEL !== undefined,
})

/** The log: embedded or Kafka, and the schema registry. Certificate and key files are PEM. */
const logSettings = (env: ParsedEnvironment, cwd: string) => ({
  log: env.INSTAR_LOG,
  registry: env.INSTAR_REGISTRY ?? null,
  registryUser: {
    username: env.INSTAR_REGISTRY_USERNAME ?? null,
    password: env.INSTAR_REGISTRY_PASSWORD ?? null,
    passwordFile: pathOf(cwd, env.INSTAR_REGISTRY_PASSWORD_FILE),
    ca: pathOf(cwd, env.INSTAR_REGISTRY_CA),
  },
  kafka: {
    /** By default, TLS is used if a CA or a certificate is set. */
    ssl: env.INSTAR_KAFKA_SSL ?? (env.INSTAR_KAFKA_CA !== undefined || env.INSTAR_KAFKA_CERT !== undefined),
    ca: pathOf(cwd, env.INSTAR_KAFKA_CA),
    cert: pathOf(cwd, env.INSTAR_KAFKA_CERT),
    key: pathOf(cwd, env.INSTAR_KAFKA_KEY),
    sasl:
      env.INSTAR_KAFKA_SASL_MECHANISM === undefined
        ? null
        : {
            mechanism: env.INSTAR_KAFKA_SASL_MECHANISM,
            username: env.INSTAR_KAFKA_USERNAME!,
            password: env.INSTAR_KAFKA_PASSWORD ?? null,
            passwordFile: pathOf(cwd, env.INSTAR_KAFKA_PASSWORD_FILE),
          },
  },
  /** Numbers of partitions that differ from the flow table. They cannot be changed after the log is created. */
  partitions: env.INSTAR_PARTITIONS ?? {},
  /** The replication factor with which `setup` creates topics. */
  replication: env.INSTAR_REPLICATION,
})

/** Where what was cut from the log is read from; null: nowhere. Credentials of S3 are in `AWS_*`, as Amazon's tools have them. */
const archiveOf = ({ INSTAR_ARCHIVE: place }: ParsedEnvironment, env: Environment, cwd: string): ArchivePlace | null =>
  place === undefined
    ? null
    : parseArchivePlace(place, {
        cwd,
        env,
        refuse(what) {
          throw new InstarError('bad_request', `INSTAR_ARCHIVE: ${what}`, { field: 'INSTAR_ARCHIVE' })
        },
      })

/** INSTAR_SETTINGS is a path, or JSON if it begins with a brace. */
const sourceOf = (text: string | undefined, cwd: string): SettingsSource =>
  text !== undefined && text.trimStart().startsWith('{')
    ? { text, path: '', named: true }
    : { text: null, path: resolve(cwd, text ?? 'instar.json'), named: text !== undefined }

/** The settings of learning that have a variable of their own, as far as it is set. */
const learningEnvironment = (env: ParsedEnvironment): EnvironmentValue[] =>
  [
    {
      setting: 'judge.idleMs',
      variable: 'INSTAR_SESSION_IDLE',
      value: env.INSTAR_SESSION_IDLE === undefined ? undefined : Math.round(1000 * env.INSTAR_SESSION_IDLE),
    },
    {
      setting: 'judge.order',
      variable: 'INSTAR_JUDGE',
      value: env.INSTAR_JUDGE === undefined ? undefined : [env.INSTAR_JUDGE],
    },
    { setting: 'training.server', variable: 'INSTAR_TRAINER', value: env.INSTAR_TRAINER },
    { setting: 'training.serverModel', variable: 'INSTAR_TRAINER_MODEL', value: env.INSTAR_TRAINER_MODEL },
    { setting: 'training.serverKey', variable: 'INSTAR_TRAINER_KEY', value: env.INSTAR_TRAINER_KEY },
    { setting: 'judge.llm.url', variable: 'INSTAR_JUDGE_URL', value: env.INSTAR_JUDGE_URL },
    {
      setting: 'judge.llm.model',
      variable: 'INSTAR_JUDGE_MODEL',
      value: env.INSTAR_JUDGE_MODEL,
      needs: 'judge.llm.url',
    },
    { setting: 'gate.judge.url', variable: 'INSTAR_JUDGE_URL', value: env.INSTAR_JUDGE_URL },
    {
      setting: 'gate.judge.model',
      variable: 'INSTAR_JUDGE_MODEL',
      value: env.INSTAR_JUDGE_MODEL,
      needs: 'gate.judge.url',
    },
    { setting: 'gate.judge.key', variable: 'INSTAR_JUDGE_KEY', value: env.INSTAR_JUDGE_KEY, needs: 'gate.judge.url' },
    { setting: 'judge.llm.key', variable: 'INSTAR_JUDGE_KEY', value: env.INSTAR_JUDGE_KEY, needs: 'judge.llm.url' },
  ].filter(({ value }) => value !== undefined)

/** PostgreSQL. */
const databaseSettings = (env: ParsedEnvironment) => ({
  postgresPrograms: env.INSTAR_PG_BIN ?? null,
  database: env.DATABASE_URL === undefined ? null : withPassword(env.DATABASE_URL, env.DATABASE_PASSWORD_FILE),
  /** The password of the role `instar_reader`; null: derived from the password in DATABASE_URL. */
  databaseReaderPassword: env.DATABASE_READER_PASSWORD_FILE ?? null,
})

/** Adds the password to a URL that has none. An invalid URL is returned unchanged; it is refused where it is used. */
const withPassword = (url: string, password: string | undefined): string => {
  if (password === undefined || !URL.canParse(url)) return url
  const parsed = new URL(url)
  if (parsed.password === '' && !parsed.searchParams.has('password')) parsed.searchParams.set('password', password)
  return parsed.href
}

const pathOf = (cwd: string, file: string | undefined): string | null =>
  file === undefined ? null : resolve(cwd, file)

const withoutUndefined = <T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
