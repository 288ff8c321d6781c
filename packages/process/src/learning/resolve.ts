/**
 * The values in force of a section: the environment before the file, before the default of the model's size, before the
 * default of the schema. Unknown names and wrong values are refused with `bad_request`.
 */
import { InstarError } from '@instar/events/errors'
import { isJsonObject } from '@instar/events/json'
import type { z } from 'zod'
import { DEFAULTS_BY_SIZE, sizeOfModel } from './defaults-by-size.ts'
import { fieldsOf, SECTION_NAMES, type Field, type Section } from './fields.ts'
import { nearestName } from './nearest.ts'
import type { SettingsFile } from './settings-file.ts'

/**
 * A value of the environment. `setting`: its full name, or that of a secret. `needs`: the setting without which the
 * variable has no effect.
 */
export type EnvironmentValue = { setting: string; variable: string; value: unknown; needs?: string }

export type Layers = {
  file: SettingsFile
  /** The model's number of parameters; null: unknown, and the defaults of the schema hold. */
  parameters: number | null
  environment: readonly EnvironmentValue[]
}

/** `size`: the default of models up to `parametersMax` parameters (null: of all larger ones). */
export type Origin =
  | { from: 'default' }
  | { from: 'size'; size: string; parametersMax: number | null }
  | { from: 'file'; file: string }
  | { from: 'environment'; variable: string }

export type SettingValue = { name: string; value: unknown; origin: Origin }
export type Resolved<T> = { config: T; values: SettingValue[] }

const refusal = (source: string, what: string, field: string): InstarError =>
  new InstarError('bad_request', `${what} (${source})`, { field })

const MAX_SHOWN = 100
const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'absent'
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}

/**
 * Values of the file by full name. `known`: the sections whose names are checked; those of other sections are not read.
 */
const valuesOfFile = ({ source, settings }: SettingsFile, known: readonly Section[]): Map<string, unknown> => {
  const from = source ?? 'the settings file'
  const fields = known.flatMap(fieldsOf).map(({ name }) => name)
  const secrets = new Map<string, string>(
    known.flatMap((section) =>
      Object.entries(section.secrets ?? {}).map(([path, variable]) => [`${section.name}.${path}`, variable] as const),
    ),
  )
  const isGroup = (name: string): boolean => fields.some((field) => field.startsWith(`${name}.`))
  const values = new Map<string, unknown>()
  const read = (name: string, value: unknown): void => {
    const secret = secrets.get(name)
    if (secret !== undefined)
      throw refusal(from, `${name} is a secret and is not read from a file: set ${secret} in the environment`, name)
    if (fields.includes(name)) values.set(name, value)
    else if (!isGroup(name))
      throw refusal(from, `unknown setting ${name.slice(0, 200)}: did you mean ${nearestName(name, fields)}?`, name)
    else if (isJsonObject(value)) for (const [key, inner] of Object.entries(value)) read(`${name}.${key}`, inner)
    else if (value !== null) throw refusal(from, `${name} is ${shown(value)}: expected an object of settings`, name)
  }
  for (const [key, value] of Object.entries(settings)) {
    const section = key.split('.', 1)[0]!
    if (key === '$schema') continue
    if (!SECTION_NAMES.some((name) => name === section))
      throw refusal(
        from,
        `unknown section ${section.slice(0, 200)}: did you mean ${nearestName(section, SECTION_NAMES)}?`,
        section,
      )
    if (known.some(({ name }) => name === section)) read(key, value)
  }
  return values
}

/** A setting of a section that is not among the known ones: borrowed fields name it. */
const foreignValue = (settings: Readonly<Record<string, unknown>>, name: string): unknown => {
  if (Object.hasOwn(settings, name)) return settings[name]
  let value: unknown = settings
  for (const part of name.split('.'))
    value = isJsonObject(value) && Object.hasOwn(value, part) ? value[part] : undefined
  return value
}

const setPath = (target: Record<string, unknown>, path: readonly string[], value: unknown): void => {
  const inner = path.slice(0, -1).reduce((at, key) => (at[key] ??= {}) as Record<string, unknown>, target)
  inner[path.at(-1)!] = value
}

const getPath = (source: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((at, key) => (isJsonObject(at) ? at[key] : undefined), source)

/** The address without user, password and query, which may hold a key. */
const publicAddress = (value: unknown): unknown => {
  if (typeof value !== 'string' || !URL.canParse(value)) return value
  const { origin, pathname } = new URL(value)
  return `${origin}${pathname}`
}

/**
 * The configuration of the section's service and the settings with their origins, without secrets. `known`: further
 * sections whose names in the file are checked.
 */
export const resolveSection = <S extends z.ZodType>(
  section: Section<S>,
  { file, parameters, environment }: Layers,
  known: readonly Section[] = [section],
): Resolved<z.output<S>> => {
  const size = sizeOfModel(parameters)
  const found = new Map<string, { value: unknown; origin: Origin }>()
  for (const row of size ? DEFAULTS_BY_SIZE : []) {
    const value = row[size!.name]
    if (value !== null)
      found.set(row.setting, { value, origin: { from: 'size', size: size!.name, parametersMax: size!.parametersMax } })
  }
  for (const [name, value] of valuesOfFile(file, known))
    found.set(name, { value, origin: { from: 'file', file: file.source ?? '' } })
  const wanted = environment.filter(({ setting }) => setting.startsWith(`${section.name}.`))
  for (const { setting, value, variable, needs } of wanted)
    if (needs === undefined || found.has(needs) || wanted.some((other) => other.setting === needs))
      found.set(setting, { value, origin: { from: 'environment', variable } })
  if ((found.get('training.server')?.value ?? 'embedded') !== 'embedded')
    for (const { setting, embeddedOnly } of DEFAULTS_BY_SIZE)
      if (embeddedOnly && found.get(setting)?.origin.from === 'size') found.delete(setting)

  const fields = fieldsOf(section)
  const input: Record<string, unknown> = {}
  const paths = [
    ...fields.map(({ name, path }) => ({ name, path })),
    ...Object.keys(section.secrets ?? {}).map((path) => ({ name: `${section.name}.${path}`, path: path.split('.') })),
  ]
  for (const { name, path } of paths) if (found.has(name)) setPath(input, path, found.get(name)!.value)
  for (const [path, name] of Object.entries(section.borrowed ?? {})) {
    const value = foreignValue(file.settings, name) ?? found.get(name)?.value
    if (value !== undefined) setPath(input, path.split('.'), value)
  }
  const parsed = section.schema.safeParse(input)
  if (!parsed.success) throw wrongValue(section, fields, parsed.error.issues[0]!, input, found, file)
  const addresses = section.addresses ?? []
  return {
    config: parsed.data,
    values: fields.map(({ name, path }) => {
      const value = getPath(parsed.data, path) ?? null
      return {
        name,
        value: addresses.includes(path.join('.')) ? publicAddress(value) : value,
        origin: found.get(name)?.origin ?? { from: 'default' },
      }
    }),
  }
}

const wrongValue = (
  section: Section,
  fields: readonly Field[],
  issue: z.core.$ZodIssue,
  input: unknown,
  found: ReadonlyMap<string, { origin: Origin }>,
  file: SettingsFile,
): InstarError => {
  const at = issue.path.map(String)
  const field = fields.find(({ path }) => path.every((key, i) => key === at[i]))
  const dotted = at.join('.')
  const name = field?.name ?? section.borrowed?.[dotted] ?? [section.name, ...at].join('.')
  const value = getPath(input, field?.path ?? at)
  const origin = found.get(name)?.origin
  const source =
    origin?.from === 'environment'
      ? origin.variable
      : origin?.from === 'size'
        ? 'default by size'
        : (file.source ?? 'settings')
  const expected = issue.code === 'custom' ? issue.message : `expected ${field?.expected ?? issue.message}`
  return refusal(source, `${name} is ${value === undefined ? 'missing' : shown(value)}: ${expected}`, name)
}
