import assert from 'node:assert/strict'
import { it } from 'node:test'
import { fieldsOf } from '@instar/process'
import { batchSettings } from '../app.ts'
import { trainerConfig } from '../config.ts'
import { trainingSection } from '../section.ts'
import { changedSettings } from './replay-settings.ts'

it('--set takes the names and the bounds of the settings file', () => {
  const recorded = batchSettings(trainerConfig.parse({}))
  const file = (path: readonly string[], value: number): boolean =>
    trainerConfig.safeParse(path.length === 1 ? { [path[0]!]: value } : { step: { [path[1]!]: value } }).success
  const set = (name: string, value: number): boolean => {
    try {
      return changedSettings(recorded, { [name]: String(value) }).settings[name.replace('training.', '')] === value
    } catch {
      return false
    }
  }
  for (const { name, path } of fieldsOf(trainingSection).filter(({ path }) => path.at(-1)! in recorded))
    for (const value of [-1, 0, 0.5, 1, 1.5, 2, 512, 513])
      assert.equal(set(name, value), file(path, value), `${name}=${value}`)
  assert.equal(changedSettings(recorded, { 'training.loss': 'opd' }).loss, 'opd')
})
