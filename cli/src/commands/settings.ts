import type { SettingsChanged } from '@instar/events'
import { recordedSettings, sizeOfModel, type Origin, type SettingValue } from '@instar/process'
import { command } from '../command.ts'
import type { Config } from '../config.ts'
import { learningSettings } from '../learning-settings.ts'
import { hasLog, POLICY, withLog } from '../log-access.ts'
import { minuteText, table } from '../table.ts'
import { isoTime } from '../versions.ts'

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

type Recorded = { value: unknown; at: number }

/**
 * The values that the line's last start recorded, by name; a section without a record is missing. Empty without a log.
 */
const recordedOn = async (config: Config): Promise<Map<string, Recorded>> => {
  const sections: SettingsChanged[] = hasLog(config)
    ? await withLog(config, async (log) => [...(await recordedSettings(log, POLICY)).values()])
    : []
  return new Map(
    sections.flatMap(({ settings, at }) =>
      Object.entries(settings).map(([name, json]) => [name, { value: JSON.parse(json) as unknown, at }] as const),
    ),
  )
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

export default command('settings', {
  usage: '',
  help: `
Prints every setting of learning (training, gate, judge) and of prices with its value in force and where that comes from: the
default, the default for models of this size, the settings file (instar.json in the working folder, or the path or JSON in
INSTAR_SETTINGS), or a variable of the environment. Secrets are not printed. The settings: docs/settings.md.

Where the line on the log was last started with another value, that is shown too (on the log): the value of the pipeline
that runs, until it is started again. Sections that never differed from the defaults have no record.

--json: an array of {setting, value, from: default | size | file | environment, size, parameters_max, file, variable,
recorded: {value, at}}; recorded: null without a record`,
  options: {},
  overrides: ['data', 'model'],
  async run({ config, print }) {
    const { values, file, parameters } = learningSettings(config)
    const size = sizeOfModel(parameters)
    const recorded = await recordedOn(config)
    const recordedText = (name: string, value: unknown): string => {
      const last = recorded.get(name)
      return last && !isSame(last.value, value) ? `${valueText(last.value)} since ${minuteText(last.at)} UTC` : ''
    }
    const differs = values.some(({ name, value }) => recordedText(name, value) !== '')
    print(
      values.map(({ name, value, origin }) => {
        const last = recorded.get(name)
        return {
          setting: name,
          value,
          ...originJson(origin),
          recorded: last ? { value: last.value, at: isoTime(last.at) } : null,
        }
      }),
      () =>
        `${table(
          [
            { name: 'setting', of: ({ name }) => name },
            { name: 'value', of: ({ value }) => valueText(value) },
            { name: 'from', of: ({ origin }) => originText(origin) },
            ...(differs
              ? [{ name: 'on the log', of: ({ name, value }: SettingValue) => recordedText(name, value) }]
              : []),
          ],
          values,
        )}\nfile   ${file.source ?? `none (${config.learning.source.path})`}\nmodel  ${config.model}${
          parameters === null || !size ? '' : `, ${countText(parameters)} parameters: ${size.name}`
        }\n`,
    )
  },
})
