/** Defines a command: its usage, its options and its action. Each file in commands/ exports one command as default. */
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { readSettings } from '@instar/process'
import { printable, printableJson } from '@instar/process/printable'
import { OVERRIDES, type Config, type Environment } from './config.ts'

/** The process of a command, as its inputs and outputs. */
export type CommandContext = {
  env: Environment
  cwd: string
  /** Standard input. */
  input?: AsyncIterable<Uint8Array>
  /** Writes to standard output: the result, or under `--json` one JSON value as the last line. */
  out(text: string): void
  /** Writes to standard error: progress, warnings, errors. */
  err(text: string): void
  /** Standard output is a terminal. */
  terminal: boolean
  /** Width of the terminal now; absent: standard output is none. */
  columns?: () => number
  /** Aborted by SIGINT, SIGTERM or SIGHUP. */
  stop: AbortSignal
}

/**
 * What a command prints with. `out` and `err` escape the control characters of what they are given, but for line breaks and
 * tabs.
 */
export type Printing = CommandContext & {
  /** Writes as it is: the command's own escape sequences, with text of its own or that is escaped already. */
  raw: Pick<CommandContext, 'out' | 'err'>
}

export const printing = (context: CommandContext): Printing => ({
  ...context,
  out: (text) => context.out(printable(text)),
  err: (text) => context.err(printable(text)),
  raw: { out: context.out, err: context.err },
})

export type OptionValues<O extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: O; allowPositionals: true; strict: true }>
>['values']

/** One call of a command, with its arguments parsed. */
export type Invocation<O extends ParseArgsOptionsConfig> = Printing & {
  config: Config
  json: boolean
  values: OptionValues<O>
  positionals: string[]
  /** Prints `value` as one line of JSON under `--json`, else the text. */
  print(value: unknown, text: () => string): void
}

/** `run` resolves with false where what the command checks does not hold: exit code 1. Throws `UsageError`. */
export type Command = { usage: string; run(args: readonly string[], context: Printing): Promise<boolean> }

/** The command line is invalid. It is printed with the command's usage; exit code 2. */
export class UsageError extends Error {}

type Definition<O extends ParseArgsOptionsConfig> = {
  /** Arguments and options, as they follow the name of the command. */
  usage: string
  /** The rest of `--help`: what the command does, each option, the fields of `--json`. */
  help: string
  options: O
  /** Values of options that are given without one: `--from-checkpoint` alone. */
  bare?: Readonly<Record<string, string>>
  /** The options that override a variable of the environment. */
  overrides?: readonly (keyof typeof OVERRIDES)[]
  /** Number of positional arguments. Default: none. */
  positionals?: readonly [min: number, max: number]
  run(invocation: Invocation<O>): Promise<boolean | void>
}

const COMMON = { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const

export const command = <O extends ParseArgsOptionsConfig>(name: string, definition: Definition<O>): Command => {
  const { options, bare = {}, overrides = [], positionals: [min, max] = [0, 0] } = definition
  const overrideOptions = Object.fromEntries(overrides.map((key) => [key, { type: 'string' as const }]))
  const lines = [
    ...overrides.map((key) => `  --${key.padEnd(7)} ${OVERRIDES[key].summary} (${OVERRIDES[key].variable})`),
    '  --json    print one JSON value as the last line',
  ]
  const usage = `usage: instar ${`${name} ${definition.usage}`.trim()}\n\n${definition.help.trim()}\n\n${lines.join('\n')}\n`
  return {
    usage,
    async run(args, context) {
      const { values, positionals } = parse(() =>
        parseArgs({
          args: args.map((arg) => {
            const value = arg.startsWith('--') ? bare[arg.slice(2)] : undefined
            return value === undefined ? arg : `${arg}=${value}`
          }),
          options: { ...options, ...overrideOptions, ...COMMON },
          allowPositionals: true,
          strict: true,
        }),
      )
      const commonValues = values as Record<string, string | boolean | undefined>
      if (commonValues.help) {
        context.out(usage)
        return true
      }
      if (positionals.length < min) throw new UsageError('an argument is missing')
      if (positionals.length > max) throw new UsageError(`unexpected argument: ${positionals.slice(max).join(' ')}`)
      const env = { ...context.env }
      for (const key of overrides)
        if (typeof commonValues[key] === 'string') env[OVERRIDES[key].variable] = commonValues[key]
      const json = commonValues.json === true
      const holds = await definition.run({
        ...context,
        config: readSettings(env, context.cwd),
        json,
        values: values as OptionValues<O>,
        positionals,
        print: (value, text) => context.out(json ? `${printableJson(JSON.stringify(value))}\n` : text()),
      })
      return holds !== false
    },
  }
}

/** Turns the `TypeError` of `parseArgs` into a `UsageError`. */
const parse = <T>(parser: () => T): T => {
  try {
    return parser()
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message)
    throw error
  }
}

/** Parses a version number: `3` or `v3`. Throws `UsageError`. */
export const parseVersion = (text: string): number => {
  const match = /^v?(\d{1,9})$/.exec(text)
  if (!match) throw new UsageError(`${text} is not a version number (3 or v3)`)
  return Number(match[1])
}
