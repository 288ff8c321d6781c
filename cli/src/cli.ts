/** The command line without its process: selects the command, prints its error, returns the exit code. */
import { ERRORS, InstarError } from '@instar/events/errors'
import { VERSION } from '@instar/process'
import { escapeControls, printableJson } from '@instar/process/printable'
import { printing, UsageError, type CommandContext } from './command.ts'
import { COMMANDS } from './commands/index.ts'

const HELP = `Instar trains an agent's own model on the conversations it has.

usage: instar <command> [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}\n`)
  .join('')}  help       print this text, or that of a command: \`instar help COMMAND\`
  --version  print the version of Instar

Every command takes --help, and --json, which prints one JSON value as the last line.
Exit codes: 0 success; 1 failure, or a check that does not hold; 2 invalid command line.
`

/** Resolves with the exit code: 0, 1 or 2. Rejects with no error of a command. */
export const runCli = async (argv: readonly string[], given: CommandContext): Promise<number> => {
  const context = printing(given)
  const [first = 'help', ...rest] = argv
  const [name, args] = first === 'help' && rest[0] !== undefined ? [rest[0], ['--help']] : [first, rest]
  if (name === 'help' || name === '--help' || name === '-h') {
    context.out(HELP)
    return 0
  }
  if (name === '--version' || name === '-v') {
    context.out(`${VERSION}\n`)
    return 0
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!entry) {
    context.err(`instar: unknown command: ${name}\n\n${HELP}`)
    return 2
  }
  const { default: command } = await entry.load()
  try {
    return (await command.run(args, context)) ? 0 : 1
  } catch (error) {
    if (error instanceof UsageError) {
      context.err(`instar ${name}: ${error.message}\n\n${command.usage}`)
      return 2
    }
    const failure =
      error instanceof InstarError
        ? error
        : new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
    context.err(`instar ${name}: ${failure.code}: ${escapeControls(failure.message)}\n${ERRORS[failure.code].todo}\n`)
    if (failure.code === 'internal')
      context.err(`${(failure.cause instanceof Error ? failure.cause : failure).stack}\n`)
    if (args.includes('--json'))
      context.out(`${printableJson(JSON.stringify({ error: { code: failure.code, message: failure.message } }))}\n`)
    return 1
  }
}
