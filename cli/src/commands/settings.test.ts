import { deepEqual, equal, match } from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { DEFAULTS_BY_SIZE, fieldsOf, readSettings, resolveSection } from '@instar/process'
import { publisherConfig } from '@instar/publisher'
import { scorerConfig } from '@instar/scorer'
import { trainerConfig } from '@instar/trainer'
import { learningSettings, SECTIONS } from '../learning-settings.ts'
import { folder, instar } from '../../../test/kit/cli.ts'

type Row = { setting: string; value: unknown; from: string; file?: string; variable?: string }
const rowsOf = async (env: Record<string, string>, cwd: string): Promise<Map<string, Row>> => {
  const { code, json, err } = await instar(['settings', '--json'], env, cwd)
  equal(code, 0, err)
  return new Map((json as Row[]).map((row) => [row.setting, row]))
}

describe('instar settings', () => {
  test('without a file the services run on the defaults of their schemas', () => {
    const { trainer, publisher, scorer } = learningSettings(readSettings({}, folder()))
    deepEqual(
      [trainer, publisher, scorer],
      [trainerConfig.parse({}), publisherConfig.parse({}), scorerConfig.parse({})],
    )
  })

  test('instar.json of the working folder is in force, INSTAR_SETTINGS replaces it, variables override both', async () => {
    const cwd = folder()
    writeFileSync(join(cwd, 'instar.json'), '{"training": {"batchSize": 32, "loss": "opd"}, "judge": {"idleMs": 1000}}')
    const found = await rowsOf({ INSTAR_SESSION_IDLE: '2' }, cwd)
    deepEqual(found.get('training.batchSize'), {
      setting: 'training.batchSize',
      value: 32,
      from: 'file',
      file: join(cwd, 'instar.json'),
      recorded: null,
    })
    equal(found.get('training.loss')?.value, 'opd')
    deepEqual(found.get('training.epochs'), { setting: 'training.epochs', value: 3, from: 'default', recorded: null })
    deepEqual(found.get('judge.idleMs'), {
      setting: 'judge.idleMs',
      value: 2000,
      from: 'environment',
      variable: 'INSTAR_SESSION_IDLE',
      recorded: null,
    })
    const replaced = await rowsOf({ INSTAR_SETTINGS: '{"gate": {"samples": 1}}' }, cwd)
    equal(replaced.get('training.batchSize')?.value, 16)
    deepEqual(replaced.get('gate.samples'), {
      setting: 'gate.samples',
      value: 1,
      from: 'file',
      file: 'INSTAR_SETTINGS',
      recorded: null,
    })
    match((await instar(['settings'], {}, cwd)).out, /^training\.batchSize +32 +file$/m)
  })

  test('a folder without weights gets the defaults of a model of the size that its config.json tells', () => {
    const model = folder()
    const config = { hidden_size: 576, num_hidden_layers: 30, vocab_size: 49_152, intermediate_size: 1536 }
    const env = {
      INSTAR_MODEL: model,
      INSTAR_ENGINE: 'vllm+http://127.0.0.1:1/v1',
      INSTAR_TRAINER: 'tinker+http://127.0.0.1:1',
    }
    const learning = (json: object): ReturnType<typeof learningSettings> => {
      writeFileSync(join(model, 'config.json'), JSON.stringify(json))
      return learningSettings(readSettings(env, folder()))
    }
    const found = learning({ ...config, tie_word_embeddings: true })
    // SmolLM2-135M; its key and value heads are fewer.
    equal(found.parameters, 147_750_912)
    deepEqual(found.values.find(({ name }) => name === 'judge.reactions.wordings')?.origin, {
      from: 'size',
      size: 'small',
      parametersMax: 500_000_000,
    })
    equal(learning({ text_config: config }).parameters, 147_750_912 + 49_152 * 576)
    equal(learning({ model_type: 'mamba' }).parameters, null)
  })

  test('the judge’s key is printed nowhere', async () => {
    const settingsWith = async (url: string): Promise<string> => {
      const env = { INSTAR_JUDGE_URL: url, INSTAR_JUDGE_KEY: 'sk-a' }
      const { out, err } = await instar(['settings', '--json'], env, folder())
      return `${out}${err}`
    }
    const shown = await settingsWith('http://judge/v1?k=sk-a')
    const refused = await settingsWith('http://user:sk-a@judge/v1')
    deepEqual([shown.includes('sk-a'), refused.includes('sk-a')], [false, false])
    match(shown, /"http:\/\/judge\/v1"/)
    match(refused, /bad_request.*contains a user/)
  })

  test('an unknown name is refused by every command that would use it, and `up` starts nothing', async () => {
    const cwd = folder()
    const env = { INSTAR_SETTINGS: '{"training": {"learnRate": 0.001}}', INSTAR_DATA: join(cwd, 'data') }
    const kafka = { INSTAR_LOG: 'kafka://127.0.0.1:1', INSTAR_REGISTRY: 'http://127.0.0.1:1' }
    for (const command of ['settings', 'up', 'judge', 'demo', 'setup']) {
      const { code, err } = await instar([command], command === 'setup' ? { ...env, ...kafka } : env, cwd)
      equal(code, 1, command)
      match(err, /bad_request: unknown setting training\.learnRate: did you mean training\.learningRate\?/)
    }
    deepEqual(existsSync(join(cwd, 'data')), false, 'the data folder is not created by a refused start')
  })

  test('the longest turn that the embedded trainer takes is no default where a training server computes the updates', () => {
    const training = SECTIONS.find(({ name }) => name === 'training')!
    const longest = (server: string | null, settings = {}): unknown =>
      resolveSection(training, {
        file: { source: null, settings: { training: settings } },
        parameters: 4e9,
        environment: server === null ? [] : [{ setting: 'training.server', variable: 'INSTAR_TRAINER', value: server }],
      }).values.find(({ name }) => name === 'training.turnTokensMax')!.value
    equal(longest(null), 1024)
    equal(longest('embedded'), 1024)
    equal(longest('tinker+http://a'), 0)
    equal(longest(null, { server: 'tinker+http://a' }), 0)
    equal(longest('tinker+http://a', { turnTokensMax: 9000 }), 9000)
  })

  test('each default by size is a value that its setting accepts, and the gate’s limits are above those of a step', () => {
    const names = SECTIONS.flatMap(fieldsOf).map(({ name }) => name)
    for (const { setting, evidence } of DEFAULTS_BY_SIZE) {
      equal(names.includes(setting), true, setting)
      equal(evidence.length > 3, true, setting)
    }
    for (const parameters of [1, 10_000_001, 500_000_001]) {
      const layers = { file: { source: null, settings: {} }, parameters, environment: [] }
      const values = new Map(
        SECTIONS.flatMap((section) => resolveSection(section, layers).values).map(({ name, value }) => [name, value]),
      )
      const number = (name: string): number => values.get(name) as number
      equal(number('gate.klParent') > number('training.klParentMax'), true)
      equal(number('gate.klBase') > number('training.klBaseMax'), true)
    }
  })
})
