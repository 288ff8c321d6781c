import { deepEqual, equal, throws } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { readSettings } from '@instar/process'
import { gatewayUrl, requireEmbedded } from './config.ts'

const hasCode =
  (code: string, field: string) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code && error.details.field === field

const NO_CREDENTIALS = { username: null, password: null, passwordFile: null, ca: null }
const NO_SECURITY = { ssl: false, ca: null, cert: null, key: null, sasl: null }

describe('settings', () => {
  test('the defaults', () => {
    const { model, ...rest } = readSettings({}, '/here')
    deepEqual(rest, {
      host: '127.0.0.1',
      port: 30000,
      data: '/here/.instar',
      checkpoints: '/here/.instar/checkpoints',
      checkpointing: {
        turns: null,
        ms: null,
        states: ['scorer', 'trainer', 'publisher', 'gateway'],
        kept: 2,
        bytes: 16 * 2 ** 30,
      },
      log: 'embedded',
      archive: null,
      engine: 'embedded',
      learnEngine: 'auto',
      engineModel: null,
      engineKey: null,
      engineAccepts: [],
      adapters: '/here/.instar/adapters',
      baseAdapter: null,
      modelNamed: false,
      registry: null,
      partitions: {},
      replication: 1,
      registryUser: NO_CREDENTIALS,
      kafka: NO_SECURITY,
      judgeName: null,
      judge: null,
      gatewayUrl: 'http://127.0.0.1:30000',
      open: false,
      keyFile: '/here/.instar/keys.json',
      key: null,
      adminToken: null,
      adminTokenFile: '/here/.instar/admin.token',
      origins: [],
      sessionIdleMs: 600_000,
      limits: {},
      healthPort: null,
      postgresPrograms: null,
      database: null,
      databaseReaderPassword: null,
      learning: { source: { text: null, path: '/here/instar.json', named: false }, environment: [] },
    })
    equal(model.endsWith('/models/tiny'), true)
  })

  test('each variable has an effect; relative folders are resolved against the working directory', () => {
    const config = readSettings(
      {
        INSTAR_PORT: '8080',
        INSTAR_HOST: '::',
        INSTAR_DATA: 'data',
        INSTAR_ARCHIVE: 'archive',
        INSTAR_MODEL: '../m.gguf',
        INSTAR_BASE_ADAPTER: '../lora',
        INSTAR_OPEN: '1',
        INSTAR_KEY: 'sk-a',
        INSTAR_JUDGE_URL: 'http://judge/v1',
        INSTAR_JUDGE_KEY: 'secret',
        INSTAR_JUDGE: 'self',
        INSTAR_GATEWAY: 'http://gateway:30000',
        INSTAR_REGISTRY: 'http://registry',
        INSTAR_LEARN_ENGINE: 'tfjs-node',
        INSTAR_REPLICATION: '3',
        INSTAR_PARTITIONS: 'turns=16, scores=8',
        INSTAR_HEALTH_PORT: '30080',
        DATABASE_URL: 'postgresql://db/x',
        INSTAR_PG_BIN: '/pg',
        INSTAR_ENGINE: 'vllm+http://a:8000/v1,http://b:8000/v1',
        INSTAR_ENGINE_MODEL: 'base',
        INSTAR_ENGINE_KEY: 'key',
        INSTAR_ADAPTERS: '/shared',
        INSTAR_BODY_LIMIT: '1000',
        INSTAR_RECOGNITION_DAYS: '0.5',
        INSTAR_CHECKPOINTS: 'states',
        INSTAR_CHECKPOINT_TURNS: '50000',
        INSTAR_CHECKPOINT_HOURS: '0.5',
        INSTAR_CHECKPOINT_STATES: 'trainer, audit',
        INSTAR_CHECKPOINTS_KEPT: '3',
        INSTAR_CHECKPOINTS_BYTES: '1000000',
        INSTAR_RECOGNITION_BYTES: '5000',
        INSTAR_REQUEST_TIMEOUT: '2.5',
        INSTAR_ANSWER_TIMEOUT: '60',
        INSTAR_CANDIDATES: '4',
        INSTAR_CANDIDATE_TOKENS: '5000',
        INSTAR_TRAIN_UNSAMPLED: '1',
        INSTAR_SETTINGS: '../learning.json',
        INSTAR_SESSION_IDLE: '90',
      },
      '/here',
    )
    deepEqual(config, {
      host: '::',
      port: 8080,
      data: '/here/data',
      checkpoints: '/here/states',
      archive: { kind: 'folder', folder: '/here/archive' },
      checkpointing: { turns: 50_000, ms: 1_800_000, states: ['trainer', 'audit'], kept: 3, bytes: 1_000_000 },
      log: 'embedded',
      engine: 'vllm+http://a:8000/v1,http://b:8000/v1',
      engineModel: 'base',
      engineKey: 'key',
      engineAccepts: [],
      adapters: '/shared',
      modelNamed: true,
      learnEngine: 'tfjs-node',
      model: '/m.gguf',
      baseAdapter: '/lora',
      registry: 'http://registry',
      partitions: { turns: 16, scores: 8 },
      replication: 3,
      registryUser: NO_CREDENTIALS,
      kafka: NO_SECURITY,
      limits: {
        bodyLimit: 1000,
        recognitionDays: 0.5,
        recognitionBytes: 5000,
        requestTimeoutMs: 2500,
        answerTimeoutMs: 60_000,
        candidates: 4,
        candidateTokens: 5000,
        trainUnsampled: true,
      },
      healthPort: 30080,
      judgeName: 'self',
      judge: { url: 'http://judge/v1', model: 'default', key: 'secret' },
      gatewayUrl: 'http://gateway:30000',
      open: true,
      keyFile: '/here/data/keys.json',
      key: 'sk-a',
      adminToken: null,
      adminTokenFile: '/here/data/admin.token',
      origins: [],
      sessionIdleMs: 90_000,
      postgresPrograms: '/pg',
      database: 'postgresql://db/x',
      databaseReaderPassword: null,
      learning: {
        source: { text: null, path: '/learning.json', named: true },
        environment: [
          { setting: 'judge.idleMs', variable: 'INSTAR_SESSION_IDLE', value: 90_000 },
          { setting: 'judge.order', variable: 'INSTAR_JUDGE', value: ['self'] },
          { setting: 'judge.llm.url', variable: 'INSTAR_JUDGE_URL', value: 'http://judge/v1' },
          { setting: 'gate.judge.url', variable: 'INSTAR_JUDGE_URL', value: 'http://judge/v1' },
          { setting: 'gate.judge.key', variable: 'INSTAR_JUDGE_KEY', value: 'secret', needs: 'gate.judge.url' },
          { setting: 'judge.llm.key', variable: 'INSTAR_JUDGE_KEY', value: 'secret', needs: 'judge.llm.url' },
        ],
      },
    })
    equal(Object.isFrozen(config), true)
  })

  test('a password file is used if the URL has no password; the error of an unreadable file names its variable', (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'instar-test-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const file = path.join(folder, 'password')
    writeFileSync(file, 'a b&c\n')
    const of = (url: string): string | null =>
      readSettings({ DATABASE_URL: url, DATABASE_PASSWORD_FILE: file }, '/').database
    equal(of('postgres://instar@db/x'), 'postgres://instar@db/x?password=a+b%26c')
    equal(of('postgres://instar:own@db/x'), 'postgres://instar:own@db/x')
    equal(readSettings({ DATABASE_READER_PASSWORD_FILE: file }, '/').databaseReaderPassword, 'a b&c')
    throws(() => readSettings({ DATABASE_PASSWORD_FILE: path.join(folder, 'none') }, '/'), {
      code: 'bad_request',
      message: /DATABASE_PASSWORD_FILE.*ENOENT/,
    })
  })

  test('an empty variable counts as not set', () =>
    equal(readSettings({ INSTAR_PORT: '', INSTAR_JUDGE_URL: '' }, '/').port, 30000))

  test('the error of an invalid value names its variable', () => {
    throws(() => readSettings({ INSTAR_PORT: 'x' }, '/'), hasCode('bad_request', 'INSTAR_PORT'))
    throws(() => readSettings({ INSTAR_PORT: '70000' }, '/'), hasCode('bad_request', 'INSTAR_PORT'))
    throws(() => readSettings({ INSTAR_LOG: 'redis://x' }, '/'), hasCode('bad_request', 'INSTAR_LOG'))
    throws(() => readSettings({ INSTAR_PARTITIONS: 'rows=3' }, '/'), hasCode('bad_request', 'INSTAR_PARTITIONS'))
    throws(() => readSettings({ INSTAR_ENGINE: 'http://x/v1' }, '/'), hasCode('bad_request', 'INSTAR_ENGINE'))
    throws(
      () => readSettings({ INSTAR_TRAINER: 'tinker+http://gpu:80800' }, '/'),
      hasCode('bad_request', 'INSTAR_TRAINER'),
    )
    throws(
      () => readSettings({ INSTAR_ENGINE: 'openai+http://x/v1', INSTAR_ENGINE_ACCEPTS: 'images,sounds' }, '/'),
      hasCode('bad_request', 'INSTAR_ENGINE_ACCEPTS'),
    )
    throws(
      () => readSettings({ INSTAR_ENGINE: 'vllm+http://x/v1', INSTAR_ENGINE_ACCEPTS: 'images' }, '/'),
      hasCode('bad_request', 'INSTAR_ENGINE_ACCEPTS'),
      'INSTAR_ENGINE_ACCEPTS is for engines that take messages',
    )
    deepEqual(
      readSettings({ INSTAR_ENGINE: 'openai+http://x/v1', INSTAR_ENGINE_ACCEPTS: 'images, files' }, '/').engineAccepts,
      ['images', 'files'],
    )
    throws(() => readSettings({ INSTAR_LEARN_ENGINE: 'cuda' }, '/'), hasCode('bad_request', 'INSTAR_LEARN_ENGINE'))
    throws(() => readSettings({ INSTAR_JUDGE_URL: 'nowhere' }, '/'), hasCode('bad_request', 'INSTAR_JUDGE_URL'))
    throws(() => readSettings({ INSTAR_OPEN: 'yes please' }, '/'), hasCode('bad_request', 'INSTAR_OPEN'))
    throws(() => readSettings({ INSTAR_CANDIDATES: '17' }, '/'), hasCode('bad_request', 'INSTAR_CANDIDATES'))
    throws(
      () => readSettings({ INSTAR_CANDIDATES: '4' }, '/'),
      hasCode('bad_request', 'INSTAR_CANDIDATES'),
      'candidates need a judge',
    )
  })

  test('security of Kafka and the registry: relative files are resolved, and a TLS file enables TLS', () => {
    const secured = readSettings(
      {
        INSTAR_KAFKA_CA: 'ca.pem',
        INSTAR_KAFKA_SASL_MECHANISM: 'SCRAM-SHA-512',
        INSTAR_KAFKA_USERNAME: 'instar',
        INSTAR_KAFKA_PASSWORD_FILE: '/run/secrets/kafka',
        INSTAR_REGISTRY_USERNAME: 'instar',
        INSTAR_REGISTRY_PASSWORD: 'p',
        INSTAR_REGISTRY_CA: 'ca.pem',
      },
      '/here',
    )
    deepEqual(secured.kafka, {
      ssl: true,
      ca: '/here/ca.pem',
      cert: null,
      key: null,
      sasl: { mechanism: 'scram-sha-512', username: 'instar', password: null, passwordFile: '/run/secrets/kafka' },
    })
    deepEqual(secured.registryUser, { username: 'instar', password: 'p', passwordFile: null, ca: '/here/ca.pem' })
    equal(readSettings({ INSTAR_KAFKA_SSL: '1' }, '/').kafka.ssl, true)
    throws(
      () => readSettings({ INSTAR_KAFKA_SASL_MECHANISM: 'gssapi' }, '/'),
      hasCode('bad_request', 'INSTAR_KAFKA_SASL_MECHANISM'),
    )
    throws(
      () => readSettings({ INSTAR_KAFKA_SASL_MECHANISM: 'plain' }, '/'),
      hasCode('bad_request', 'INSTAR_KAFKA_USERNAME'),
    )
    throws(
      () => readSettings({ INSTAR_KAFKA_SASL_MECHANISM: 'plain', INSTAR_KAFKA_USERNAME: 'u' }, '/'),
      hasCode('bad_request', 'INSTAR_KAFKA_PASSWORD'),
    )
    throws(
      () => readSettings({ INSTAR_KAFKA_USERNAME: 'u', INSTAR_KAFKA_PASSWORD: 'p' }, '/'),
      hasCode('bad_request', 'INSTAR_KAFKA_SASL_MECHANISM'),
    )
    throws(() => readSettings({ INSTAR_KAFKA_CERT: 'c.pem' }, '/'), hasCode('bad_request', 'INSTAR_KAFKA_KEY'))
    throws(
      () => readSettings({ INSTAR_REGISTRY_USERNAME: 'u' }, '/'),
      hasCode('bad_request', 'INSTAR_REGISTRY_PASSWORD'),
    )
  })

  test('requireEmbedded refuses a log on Kafka and an engine behind HTTP', () => {
    throws(
      () => requireEmbedded(readSettings({ INSTAR_LOG: 'kafka://broker:9092' }, '/')),
      hasCode('not_available', 'INSTAR_LOG'),
    )
    throws(
      () => requireEmbedded(readSettings({ INSTAR_ENGINE: 'vllm+http://gpu:8000/v1' }, '/')),
      hasCode('not_available', 'INSTAR_ENGINE'),
    )
    requireEmbedded(readSettings({}, '/'))
  })

  test('gatewayUrl of an unspecified address is the loopback address', () => {
    equal(gatewayUrl({ host: '0.0.0.0', port: 1 }), 'http://127.0.0.1:1')
    equal(gatewayUrl({ host: '::', port: 1 }), 'http://[::1]:1')
    equal(gatewayUrl({ host: '127.0.0.1', port: 1 }), 'http://127.0.0.1:1')
  })
})
