/** The settings file: names, values, origins and refusals, with a section as a service defines it. */
import { deepEqual, equal, throws } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { z } from 'zod'
import { fieldsOf, type Section } from './fields.ts'
import { nearestName } from './nearest.ts'
import { resolveSection, type EnvironmentValue, type Resolved } from './resolve.ts'
import { readSettingsFile, type SettingsFile } from './settings-file.ts'

const judge = z.object({
  policy: z.string().default('policy'),
  idleMs: z.int().positive().default(10).describe('idle'),
  staleness: z.int().nonnegative().default(4),
  judges: z
    .array(z.enum(['llm', 'reactions']))
    .nullable()
    .default(null),
  reactions: z.object({ movedOn: z.number().min(-1).max(1).nullable().default(null) }).prefault({}),
  llm: z
    .object({ url: z.url(), key: z.string().nullable().default(null), votes: z.int().min(1).max(15).default(3) })
    .nullable()
    .default(null),
})
const JUDGE: Section<typeof judge> = {
  name: 'judge',
  schema: judge,
  hidden: ['policy'],
  renamed: { judges: 'order' },
  borrowed: { staleness: 'training.staleness' },
  secrets: { 'llm.key': 'INSTAR_JUDGE_KEY' },
  addresses: ['llm.url'],
}
const training = z.object({
  batchSize: z.int().positive().max(512).default(16),
  loss: z.enum(['hybrid', 'opd']).default('hybrid'),
  step: z
    .object({ epochs: z.int().positive().default(3), learningRate: z.number().positive().default(3e-3) })
    .prefault({}),
})
const TRAINING: Section<typeof training> = { name: 'training', schema: training, lifted: ['step'] }

const fileOf = (settings: Record<string, unknown>): SettingsFile => ({ source: 'instar.json', settings })
const judged = (
  settings: Record<string, unknown>,
  environment: EnvironmentValue[] = [],
): Resolved<z.output<typeof judge>> => resolveSection(JUDGE, { file: fileOf(settings), parameters: null, environment })
const trained = (
  settings: Record<string, unknown>,
  parameters: number | null = null,
): Resolved<z.output<typeof training>> =>
  resolveSection(TRAINING, { file: fileOf(settings), parameters, environment: [] }, [TRAINING, JUDGE])
const refused = (message: string) => ({ code: 'bad_request', message: `${message} (instar.json)` })
const originOf = ({ values }: Resolved<unknown>, name: string): unknown =>
  values.find((one) => one.name === name)?.origin

describe('a section of the settings file', () => {
  test('its names, defaults and bounds are those of the service’s schema', () => {
    deepEqual(
      fieldsOf(JUDGE).map(({ name, expected, default: value }) => [name, expected, value]),
      [
        ['judge.idleMs', 'a whole number of at least 1', 10],
        ['judge.order', 'a list of "llm" or "reactions" or null', null],
        ['judge.reactions.movedOn', 'a number from -1 to 1 or null', null],
        ['judge.llm.url', 'a URL', undefined],
        ['judge.llm.votes', 'a whole number from 1 to 15', 3],
      ],
    )
    deepEqual(
      fieldsOf(TRAINING).map(({ name, expected }) => `${name}: ${expected}`),
      [
        'training.batchSize: a whole number from 1 to 512',
        'training.loss: "hybrid" or "opd"',
        'training.epochs: a whole number of at least 1',
        'training.learningRate: a number above 0',
      ],
    )
  })

  test('values of the file reach the configuration of the service, each with its origin', () => {
    const resolved = trained({ training: { batchSize: 512, epochs: 1 } })
    deepEqual(resolved.config, { batchSize: 512, loss: 'hybrid', step: { epochs: 1, learningRate: 3e-3 } })
    deepEqual(originOf(resolved, 'training.epochs'), { from: 'file', file: 'instar.json' })
    deepEqual(originOf(resolved, 'training.loss'), { from: 'default' })
    deepEqual(trained({ $schema: 'x', 'training.loss': 'opd' }).config.loss, 'opd')
  })

  test('the size of the model sets defaults at its bounds, which the file overrides', () => {
    const small = { from: 'size', size: 'small', parametersMax: 500_000_000 }
    equal(trained({}, 10_000_000).config.step.epochs, 3)
    deepEqual(originOf(trained({}, 10_000_000), 'training.epochs'), { from: 'default' })
    equal(trained({}, 10_000_001).config.step.epochs, 1)
    deepEqual(originOf(trained({}, 10_000_001), 'training.epochs'), small)
    deepEqual(originOf(trained({}, 500_000_000), 'training.epochs'), small)
    deepEqual(originOf(trained({}, 500_000_001), 'training.epochs'), {
      from: 'size',
      size: 'larger',
      parametersMax: null,
    })
    equal(trained({ training: { epochs: 9 } }, 135_000_000).config.step.epochs, 9)
    equal(trained({}, null).config.step.epochs, 3)
  })

  test('an unknown name is refused with the nearest known one', () => {
    throws(
      () => trained({ training: { learnRate: 1 } }),
      refused('unknown setting training.learnRate: did you mean training.learningRate?'),
    )
    throws(() => trained({ trainng: {} }), refused('unknown section trainng: did you mean training?'))
    throws(
      () => trained({ judge: { batchSize: 1 } }),
      refused('unknown setting judge.batchSize: did you mean training.batchSize?'),
    )
    throws(
      () => judged({ judge: { llm: { vote: 1 } } }),
      refused('unknown setting judge.llm.vote: did you mean judge.llm.votes?'),
    )
    throws(() => trained({ training: { step: { epochs: 1 } } }), { message: /^unknown setting training\.step: / })
    throws(() => trained({ training: JSON.parse('{"__proto__": 1}') as unknown }), { message: /^unknown setting/ })
    equal(nearestName('BATCHSIZE', ['epochs', 'batchSize']), 'batchSize')
    equal(nearestName('x'.repeat(1_000_000), ['epochs', 'batchSize']).length > 0, true)
  })

  test('a wrong value is refused with its path, the value and what is expected, at each bound', () => {
    const whole = 'expected a whole number from 1 to 512'
    for (const value of [0, 513, 1.5, '16', null, [16]])
      throws(
        () => trained({ training: { batchSize: value } }),
        refused(`training.batchSize is ${JSON.stringify(value)}: ${whole}`),
      )
    equal(trained({ training: { batchSize: 1 } }).config.batchSize, 1)
    throws(() => trained({ training: { loss: 'ppo' } }), refused('training.loss is "ppo": expected "hybrid" or "opd"'))
    throws(() => trained({ training: 3 }), refused('training is 3: expected an object of settings'))
    throws(() => judged({ judge: { llm: { votes: 3 } } }), refused('judge.llm.url is missing: expected a URL'))
    throws(
      () => judged({ judge: { order: ['llm', 'rules'] } }),
      refused('judge.order is ["llm","rules"]: expected a list of "llm" or "reactions" or null'),
    )
    throws(
      () => judged({ judge: { order: 'y'.repeat(5000) } }),
      (error: Error) => error.message.length < 300,
    )
  })

  test('a secret in the file is refused without being quoted, and no value shows one', () => {
    const secret = 'sk-1234567890'
    throws(
      () => judged({ judge: { llm: { url: 'http://j/v1', key: secret } } }),
      refused('judge.llm.key is a secret and is not read from a file: set INSTAR_JUDGE_KEY in the environment'),
    )
    const resolved = judged({}, [
      { setting: 'judge.llm.url', variable: 'INSTAR_JUDGE_URL', value: `http://me:${secret}@judge/v1?key=${secret}` },
      { setting: 'judge.llm.key', variable: 'INSTAR_JUDGE_KEY', value: secret, needs: 'judge.llm.url' },
    ])
    equal(resolved.config.llm?.key, secret)
    equal(JSON.stringify(resolved.values).includes(secret), false)
    equal(resolved.values.find(({ name }) => name === 'judge.llm.url')?.value, 'http://judge/v1')
  })

  test('the environment overrides the file; a variable that needs another has no effect alone', () => {
    const idle = { setting: 'judge.idleMs', variable: 'INSTAR_SESSION_IDLE', value: 7 }
    const resolved = judged({ judge: { idleMs: 5, llm: { votes: 1 } } }, [
      idle,
      { setting: 'judge.llm.url', variable: 'INSTAR_JUDGE_URL', value: 'http://judge/v1' },
    ])
    deepEqual([resolved.config.idleMs, resolved.config.llm], [7, { url: 'http://judge/v1', key: null, votes: 1 }])
    deepEqual(originOf(resolved, 'judge.idleMs'), { from: 'environment', variable: 'INSTAR_SESSION_IDLE' })
    const key = { setting: 'judge.llm.key', variable: 'INSTAR_JUDGE_KEY', value: 'k', needs: 'judge.llm.url' }
    equal(judged({}, [key]).config.llm, null)
    equal(judged({ judge: { llm: { url: 'http://j/v1' } } }, [key]).config.llm?.key, 'k')
    throws(() => judged({}, [{ ...idle, value: 0 }]), {
      message: 'judge.idleMs is 0: expected a whole number of at least 1 (INSTAR_SESSION_IDLE)',
    })
  })

  test('the scorer’s staleness is the trainer’s setting', () => {
    equal(judged({ training: { staleness: 0 } }).config.staleness, 0)
    equal(judged({}).config.staleness, 4)
    throws(() => judged({ training: { staleness: -1 } }), { message: /^training\.staleness is -1/ })
  })
})

describe('the settings file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-settings-'))
  after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'instar.json')
  const read = (named = false): SettingsFile => readSettingsFile({ text: null, path, named })

  test('a missing file is none unless it is named, an empty one is none', () => {
    deepEqual(read(), { source: null, settings: {} })
    throws(() => read(true), { code: 'bad_request', message: /instar\.json does not exist/ })
    writeFileSync(path, '\n')
    deepEqual(read(true), { source: null, settings: {} })
    writeFileSync(path, '\uFEFF{"gate": {}}')
    deepEqual(read(), { source: path, settings: { gate: {} } })
    mkdirSync(join(folder, 'sub'))
    throws(() => readSettingsFile({ text: null, path: join(folder, 'sub'), named: true }), { message: /is a folder/ })
    deepEqual(readSettingsFile({ text: null, path: '/dev/null', named: true }), { source: null, settings: {} })
  })

  test('a pipe, which nobody may ever write, and a link to itself are refused', { timeout: 10_000 }, () => {
    const at = (name: string) => ({ text: null, path: join(folder, name), named: true })
    equal(spawnSync('mkfifo', [at('pipe').path]).status, 0)
    throws(() => readSettingsFile(at('pipe')), { code: 'bad_request', message: /is not a file/ })
    symlinkSync('loop', at('loop').path)
    throws(() => readSettingsFile(at('loop')), { code: 'bad_request', message: /cannot be read \(ELOOP\)/ })
  })

  test('a device without end is read up to the limit, and one without content is no file', { timeout: 10_000 }, () => {
    const at = (path: string) => ({ text: null, path, named: true })
    throws(() => readSettingsFile(at('/dev/zero')), { code: 'bad_request', message: /has more than 1048576 bytes/ })
    deepEqual(readSettingsFile(at('/dev/null')), { source: null, settings: {} })
  })

  test('JSON may stand in the variable itself', () => {
    deepEqual(readSettingsFile({ text: '{"gate": {"klBase": 1}}', path: '', named: true }), {
      source: 'INSTAR_SETTINGS',
      settings: { gate: { klBase: 1 } },
    })
  })

  test('text that is no JSON object is refused and not quoted; a file of 1 MiB is read, a larger one refused', () => {
    writeFileSync(path, '{"judge": {"llm": {"key": "sk-secret",}}}')
    throws(read, (error: Error) => /is not JSON/.test(error.message) && !error.message.includes('sk-'))
    writeFileSync(path, '[]')
    throws(read, { message: /must be a JSON object/ })
    writeFileSync(path, '{}'.padEnd(1 << 20))
    deepEqual(read().settings, {})
    writeFileSync(path, '{}'.padEnd((1 << 20) + 1))
    throws(read, { message: /has 1048577 bytes/ })
  })
})
