/** The command line without the process around it: finds the command, tells errors, gives the exit code. */
import { ERRORS, InstarError } from '@instar/events/errors'
import { VERSION } from '@instar/process'
import { UsageError, type World } from './command.ts'
import { COMMANDS } from './commands/index.ts'

const HELP = `Instar lets a model learn from the conversations it has.

usage: instar <command> [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}\n`)
  .join('')}  help       this, or \`instar help COMMAND\`
  --version  the version of Instar

Every command takes --help, and --json for scripts: one JSON value as the last line. Exit code 0: done, or it
holds; 1: not; 2: the command line was not understood.
`

export const runCli = async (argv: readonly string[], world: World): Promise<number> => {
  const [first = 'help', ...rest] = argv
  const [name, args] = first === 'help' && rest[0] !== undefined ? [rest[0], ['--help']] : [first, rest]
  if (name === 'help' || name === '--help' || name === '-h') {
    world.out(HELP)
    return 0
  }
  if (name === '--version' || name === '-v') {
    world.out(`${VERSION}\n`)
    return 0
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!entry) {
    world.err(`instar: there is no command ${name}\n\n${HELP}`)
    return 2
  }
  const { default: command } = await entry.load()
  try {
    return (await command.run(args, world)) ? 0 : 1
  } catch (error) {
    if (error instanceof UsageError) {
      world.err(`instar ${name}: ${error.message}\n\n${command.usage}`)
      return 2
    }
    const fault =
      error instanceof InstarError
        ? error
        : new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
    world.err(`instar ${name}: ${fault.code}: ${fault.message}\n${ERRORS[fault.code].todo}\n`)
    if (fault.code === 'internal') world.err(`${(fault.cause instanceof Error ? fault.cause : fault).stack}\n`)
    if (args.includes('--json'))
      world.out(`${JSON.stringify({ error: { code: fault.code, message: fault.message } })}\n`)
    return 1
  }
}
