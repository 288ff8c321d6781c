/** What a command is: a name, its options, and what it does with them. One file for each under commands/. */
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { readSettings } from '@instar/process'
import { OVERRIDES, type Config, type Environment } from './config.ts'

/** The world as a command sees it. */
export type World = {
  env: Environment
  cwd: string
  /** For people and for `--json`'s last line. */
  out(text: string): void
  /** What is not the answer: progress, remarks, errors. */
  err(text: string): void
  terminal: boolean
  /** Aborted by SIGINT or SIGTERM: the command ends in good order. */
  stop: AbortSignal
}

export type Values<O extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: O; allowPositionals: true; strict: true }>
>['values']

export type Call<O extends ParseArgsOptionsConfig> = World & {
  config: Config
  json: boolean
  values: Values<O>
  positionals: string[]
  /** One value for scripts under `--json`, else the text for people. */
  answer(value: unknown, text: () => string): void
}

/** False: what was asked does not hold; the exit code is 1. */
export type Command = { usage: string; run(args: readonly string[], world: World): Promise<boolean> }

/** The command line is not understood: told with the command's usage, exit code 2. */
export class UsageError extends Error {}

type Definition<O extends ParseArgsOptionsConfig> = {
  /** Arguments and options behind the command's name. */
  usage: string
  /** Rest of `--help`: what it does, each option, what `--json` prints. */
  help: string
  options: O
  /** Which of the shared options it takes. */
  overrides?: readonly (keyof typeof OVERRIDES)[]
  positionals?: readonly [least: number, most: number]
  run(call: Call<O>): Promise<boolean | void>
}

const SHARED = { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const

export const command = <O extends ParseArgsOptionsConfig>(name: string, definition: Definition<O>): Command => {
  const { options, overrides = [], positionals: [least, most] = [0, 0] } = definition
  const shared = Object.fromEntries(overrides.map((key) => [key, { type: 'string' as const }]))
  const lines = [
    ...overrides.map((key) => `  --${key}  ${OVERRIDES[key].what} (${OVERRIDES[key].variable})`),
    '  --json  one JSON value as the last line',
  ]
  const usage = `usage: instar ${`${name} ${definition.usage}`.trim()}\n\n${definition.help.trim()}\n\n${lines.join('\n')}\n`
  return {
    usage,
    async run(args, world) {
      const { values, positionals } = understood(() =>
        parseArgs({
          args: [...args],
          options: { ...options, ...shared, ...SHARED },
          allowPositionals: true,
          strict: true,
        }),
      )
      const given = values as Record<string, string | boolean | undefined>
      if (given.help) {
        world.out(usage)
        return true
      }
      if (positionals.length < least || positionals.length > most)
        throw new UsageError(
          positionals.length < least ? 'something is missing' : `not understood: ${positionals.slice(most).join(' ')}`,
        )
      const env = { ...world.env }
      for (const key of overrides) if (typeof given[key] === 'string') env[OVERRIDES[key].variable] = given[key]
      const json = given.json === true
      const answer = (value: unknown, text: () => string): void =>
        world.out(json ? `${JSON.stringify(value)}\n` : text())
      return (
        (await definition.run({
          ...world,
          config: readSettings(env, world.cwd),
          json,
          values: values as Values<O>,
          positionals,
          answer,
        })) !== false
      )
    },
  }
}

const understood = <T>(parse: () => T): T => {
  try {
    return parse()
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message)
    throw error
  }
}

/** A version's number as a person types it: `3` or `v3`. */
export const versionNumber = (text: string): number => {
  const match = /^v?(\d{1,9})$/.exec(text)
  if (!match) throw new UsageError(`${text} is not the number of a version`)
  return Number(match[1])
}
