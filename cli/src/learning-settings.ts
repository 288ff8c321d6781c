/** The settings of learning of this process, by sections (docs/settings.md). */
import { isRemote } from '@instar/gateway/open-remote'
import { estimatedParameters, holdsWeights, parameterCount } from '@instar/policy'
import {
  pricesSection,
  readSettingsFile,
  resolveSection,
  type Prices,
  type Section,
  type SettingsFile,
  type SettingValue,
} from '@instar/process'
import { gateSection, type publisherConfig } from '@instar/publisher'
import { judgeSection, type scorerConfig } from '@instar/scorer'
import { trainingSection, type trainerConfig } from '@instar/trainer'
import { statSync } from 'node:fs'
import type { z } from 'zod'
import type { Config } from './config.ts'

export const SECTIONS: readonly Section[] = [trainingSection, gateSection, judgeSection, pricesSection]

export type LearningSettings = {
  trainer: z.output<typeof trainerConfig>
  publisher: z.output<typeof publisherConfig>
  scorer: z.output<typeof scorerConfig>
  values: SettingValue[]
  file: SettingsFile
  /** Of the model, roughly where there are no weights; null where neither they nor config.json tell it. */
  parameters: number | null
}

/**
 * `parameters`: of the model; default: those of the checkpoint of `config`. Throws `bad_request` for the file and for
 * values, `bad_checkpoint` for the model.
 */
export const learningSettings = (
  config: Pick<Config, 'learning' | 'model' | 'engine'>,
  parameters: number | null = parametersOf(config),
): LearningSettings => {
  const file = readSettingsFile(config.learning.source)
  const layers = { file, parameters, environment: config.learning.environment }
  const training = resolveSection(trainingSection, layers, SECTIONS)
  const gate = resolveSection(gateSection, layers, SECTIONS)
  const judge = resolveSection(judgeSection, layers, SECTIONS)
  const prices = resolveSection(pricesSection, layers, SECTIONS)
  return {
    trainer: training.config,
    publisher: gate.config,
    scorer: judge.config,
    values: [...training.values, ...gate.values, ...judge.values, ...prices.values],
    file,
    parameters,
  }
}

/** The prices of the settings file. Reads no model, and no other section. */
export const readPrices = ({ learning }: Pick<Config, 'learning'>): Prices =>
  resolveSection(pricesSection, {
    file: readSettingsFile(learning.source),
    parameters: null,
    environment: learning.environment,
  }).config

const parametersOf = (config: Pick<Config, 'model' | 'engine'>): number | null => {
  if (!statSync(config.model, { throwIfNoEntry: false })) return null
  return isRemote(config) && !holdsWeights(config.model)
    ? estimatedParameters(config.model)
    : parameterCount(config.model)
}
