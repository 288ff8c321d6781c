/** A scorer of its own process words hints as the one within `npm start` does, by the size of the model. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { writeSafetensors, type Tensor } from '@instar/policy/checkpoints/safetensors'
import { weightShapes } from '@instar/policy/weights'
import { readSettings } from '@instar/process'
import { hintKind } from '@instar/scorer'
import { learningSettings } from '../../cli/src/learning-settings.ts'
import type { ScorerConfig } from '../../services/scorer/src/config.ts'
import { GENERAL_WORDINGS, WORDINGS } from '../../services/scorer/src/core/hints.ts'
import { ownSettings } from '../../services/scorer/src/shell/own-settings.ts'
import { createJudges } from '../../services/scorer/src/app.ts'
import { judgeTurn } from '../../services/scorer/src/shell/judges.ts'
import { folder } from '../kit/cli.ts'
import { CONFIG, writeRandomModel } from '../kit/random-model.ts'

/** A model folder with more than 10 million parameters, all zero. */
const writeLargeModel = (at: string): string => {
  writeRandomModel(at)
  const large = { ...CONFIG, intermediateSize: 60_000 }
  const config = JSON.parse(readFileSync(join(at, 'config.json'), 'utf8')) as Record<string, unknown>
  writeFileSync(join(at, 'config.json'), JSON.stringify({ ...config, intermediate_size: large.intermediateSize }))
  const tensors = weightShapes(large).map(([name, shape]): [string, Tensor] => [
    name,
    { dtype: 'F32', shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)) },
  ])
  writeFileSync(join(at, 'model.safetensors'), writeSafetensors(new Map(tensors)))
  return at
}

const hintOf = async (config: ScorerConfig, turn: string): Promise<string> => {
  const evidence = {
    turn,
    request: 'What is a lake?',
    answer: 'A lake is a body of water that lies in a basin, surrounded by land, and larger than a pond.',
    calls: false,
    next: { user: 'Far too long. Please keep it short.', tools: '' },
  }
  const judges = createJudges(config, { now: () => 0 })
  const { hint } = await judgeTurn(judges, { feedback: null }, evidence, AbortSignal.timeout(60_000))
  return hint ?? ''
}

test('a scorer process with a model above 10 million parameters words hints as `up` does with it', async () => {
  const at = folder()
  mkdirSync(at, { recursive: true })
  const settings = readSettings({ INSTAR_MODEL: writeLargeModel(join(at, 'large')) }, at)
  const { config, values } = ownSettings(settings)
  const up = learningSettings(settings)
  ok(up.parameters! > 10_000_000, `${up.parameters} parameters`)
  deepEqual(config, up.scorer)
  deepEqual(
    values,
    up.values.filter(({ name }) => name.startsWith('judge.')),
  )
  for (let i = 0; i < 8; i += 1) {
    const hint = await hintOf(config, `turn ${i}`)
    ok(GENERAL_WORDINGS.shorter!.includes(hint), hint)
    equal(hint, await hintOf(up.scorer, `turn ${i}`))
  }
})

test('with the model that ships it has the wordings of tiny, and with the file those of the file', async () => {
  const at = folder()
  const small = ownSettings(readSettings({}, at)).config
  ok(WORDINGS.shorter.includes(await hintOf(small, 'a')))
  writeFileSync(join(at, 'instar.json'), JSON.stringify({ judge: { reactions: { wordings: 'general' } } }))
  const named = ownSettings(readSettings({}, at)).config
  equal(hintKind(await hintOf(named, 'a')), 'shorter')
  notEqual(await hintOf(named, 'a'), await hintOf(small, 'a'))
})

test('where the weights are on servers alone config.json tells the size; without it the defaults of the schema hold', () => {
  const at = folder()
  mkdirSync(join(at, 'config'))
  const shape = { hidden_size: 576, num_hidden_layers: 30, vocab_size: 49_152, intermediate_size: 1536 }
  writeFileSync(join(at, 'config/config.json'), JSON.stringify(shape))
  const sized = ownSettings(readSettings({ INSTAR_MODEL: join(at, 'config') }, at)).config
  equal(sized.reactions.wordings, 'general')
  mkdirSync(join(at, 'tokenizer'))
  const { config, values } = ownSettings(readSettings({ INSTAR_MODEL: join(at, 'tokenizer') }, at))
  equal(config.reactions.wordings, 'tiny')
  ok(values.every(({ origin }) => origin.from === 'default'))
})
