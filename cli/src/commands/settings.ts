import { sizeOfModel, type Origin } from '@instar/process'
import { command } from '../command.ts'
import { learningSettings } from '../learning-settings.ts'
import { table } from '../table.ts'

const countText = (parameters: number): string =>
  parameters >= 1e9
    ? `${Number((parameters / 1e9).toFixed(1))} billion`
    : `${Number((parameters / 1e6).toFixed(1))} million`

const originText = (origin: Origin): string => {
  switch (origin.from) {
    case 'default':
      return 'default'
    case 'size':
      return origin.parametersMax === null
        ? 'default of larger models'
        : `default of models up to ${countText(origin.parametersMax)} parameters`
    case 'file':
      return origin.file === 'INSTAR_SETTINGS' ? origin.file : 'file'
    case 'environment':
      return origin.variable
  }
}

/** The column `from` of `--json`. */
const originJson = (origin: Origin): Record<string, unknown> =>
  origin.from === 'size'
    ? { from: 'size', size: origin.size, parameters_max: origin.parametersMax }
    : origin.from === 'file'
      ? { from: 'file', file: origin.file }
      : origin

const MAX_VALUE = 60
const valueText = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE - 1)}…` : text
}

export default command('settings', {
  usage: '',
  help: `
Prints every setting of learning (training, gate, judge) with its value in force and where that comes from: the default, the
default for models of this size, the settings file (instar.json in the working folder, or the path or JSON in
INSTAR_SETTINGS), or a variable of the environment. Secrets are not printed. The settings: docs/settings.md.

--json: an array of {setting, value, from: default | size | file | environment, size, parameters_max, file, variable}`,
  options: {},
  overrides: ['data', 'model'],
  async run({ config, print }) {
    const { values, file, parameters } = learningSettings(config)
    const size = sizeOfModel(parameters)
    print(
      values.map(({ name, value, origin }) => ({ setting: name, value, ...originJson(origin) })),
      () =>
        `${table(
          [
            { name: 'setting', of: ({ name }) => name },
            { name: 'value', of: ({ value }) => valueText(value) },
            { name: 'from', of: ({ origin }) => originText(origin) },
          ],
          values,
        )}\nfile   ${file.source ?? `none (${config.learning.source.path})`}\nmodel  ${config.model}${
          parameters === null || !size ? '' : `, ${countText(parameters)} parameters: ${size.name}`
        }\n`,
    )
  },
})
