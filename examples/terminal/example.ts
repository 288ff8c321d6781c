/** A shell task in a temporary folder: list, count, write a file. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drawing, pick, type Draw } from '../draw.ts'
import { tool, type Example, type World } from '../example.ts'

/** Programs that may run, without a shell. None of them runs another program or writes a file without an option for it. */
const PROGRAMS = new Set(['ls', 'cat', 'wc', 'head', 'tail', 'grep'])
/** Names in the folder: no separator, so that nothing outside it can be named. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.]*$/
const OPTION = /^-[A-Za-z0-9]{1,4}$/
const OUTPUT_MAX = 2_000
const TIME_MS_MAX = 5_000

/** Runs one command in the folder. What is not allowed is an error as text, as a shell's. */
export const runCommand = async (folder: string, command: string): Promise<string> => {
  const write = /^echo ([^<>|&;$`\n]{1,500}?) ?> ?(\S+)$/.exec(command.trim())
  if (write) {
    const [, text = '', name = ''] = write
    if (!NAME.test(name)) return `error: ${name} is not a name in this folder`
    await writeFile(join(folder, name), `${text.replace(/^(["'])(.*)\1$/, '$2')}\n`)
    return ''
  }
  const [program = '', ...words] = command.trim().split(/\s+/)
  if (!PROGRAMS.has(program))
    return `error: ${program} is not allowed; use ${[...PROGRAMS].join(', ')} or echo TEXT > FILE`
  const refused = words.find((word) => !NAME.test(word) && !OPTION.test(word))
  if (refused !== undefined) return `error: ${refused} is not a name in this folder or an option`
  return new Promise((resolve) => {
    const options = {
      cwd: folder,
      timeout: TIME_MS_MAX,
      maxBuffer: 1 << 20,
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    }
    const child = execFile(program, words, options, (error, stdout, stderr) =>
      resolve((error ? `error: exit code ${error.code ?? 1}\n${stderr}` : stdout).slice(0, OUTPUT_MAX)),
    )
    child.stdin?.end()
  })
}

type Wanted = { files: Readonly<Record<string, string>>; ask: string; file: string; content: string }

const draw = (random: Draw): Wanted => {
  const count = 2 + random(4)
  const names = ['notes', 'plan', 'list', 'diary', 'log', 'mail'].slice(0, count)
  const lines = 1 + random(5)
  const files = Object.fromEntries(names.map((name) => [`${name}.txt`, 'a line\n'.repeat(lines)]))
  const name = pick(random, names)
  return random(2) === 0
    ? {
        files,
        ask: `Count the files in this folder and write the number to count.txt.`,
        file: 'count.txt',
        content: `${count}`,
      }
    : {
        files,
        ask: `Count the lines of ${name}.txt and write the number to lines.txt.`,
        file: 'lines.txt',
        content: `${lines}`,
      }
}

/** 1: the file has the content. −0.5: it exists. −1: it does not. */
const begin = async ({ files, file, content }: Wanted): Promise<World> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-terminal-'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return {
    call: (name, { command }) =>
      name === 'run' && typeof command === 'string'
        ? runCommand(folder, command)
        : Promise.resolve('error: call run with a command'),
    async reward() {
      const found = await readFile(join(folder, file), 'utf8').catch(() => null)
      return found === null ? -1 : found.trim() === content ? 1 : -0.5
    },
    end: () => rm(folder, { recursive: true, force: true }),
  }
}

export const terminal: Example = {
  name: 'terminal',
  about: 'count files or lines in a folder and write the number to a file',
  tasks: (seed, count) =>
    Array.from({ length: count }, (_, at) => {
      const wanted = draw(drawing(seed * 1_000 + at))
      const tools = [tool('run', 'Run a command in the folder', ['command'])]
      return { id: `terminal ${seed} ${at}`, ask: wanted.ask, tools, turns: 4, begin: () => begin(wanted) }
    }),
}
