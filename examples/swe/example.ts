/** A small repository with a failing test. The reward is the test run. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drawing, pick } from '../draw.ts'
import { tool, type Example, type World } from '../example.ts'

type Bug = { name: string; wrong: string; right: string; checks: readonly string[] }
const BUGS: readonly Bug[] = [
  { name: 'add', wrong: 'a - b', right: 'a + b', checks: ['add(2, 3) === 5', 'add(-1, 1) === 0'] },
  {
    name: 'largest',
    wrong: 'a < b ? a : b',
    right: 'a < b ? b : a',
    checks: ['largest(2, 3) === 3', 'largest(9, 4) === 9'],
  },
  { name: 'isEven', wrong: 'a % 2 === 1', right: 'a % 2 === 0', checks: ['isEven(4)', '!isEven(7)'] },
  { name: 'repeat', wrong: 'a.repeat(b - 1)', right: 'a.repeat(b)', checks: ["repeat('x', 3) === 'xxx'"] },
]
const codeOf = (name: string, body: string): string => `export const ${name} = (a, b) => ${body}\n`
const testOf = ({ name, checks }: Bug): string =>
  `import assert from 'node:assert'\nimport { ${name} } from './${name}.mjs'\n${checks.map((check) => `assert.ok(${check}, ${JSON.stringify(check)})\n`).join('')}`

const TIME_MS_MAX = 5_000
const FILE_BYTES_MAX = 4_000

/**
 * Runs the test without permission to write, to start processes or to read outside the folder. What a model writes is
 * executed: network access is not prevented by this.
 */
const runTest = (folder: string, file: string): Promise<{ passed: boolean; said: string }> =>
  new Promise((resolve) => {
    const options = { cwd: folder, timeout: TIME_MS_MAX, maxBuffer: 1 << 20, env: {} }
    const args = ['--permission', `--allow-fs-read=${folder}`, '--max-old-space-size=64', join(folder, file)]
    execFile(process.execPath, args, options, (error, _, stderr) =>
      resolve({ passed: error === null, said: error ? `error: tests failed\n${stderr.slice(-600)}` : 'tests passed' }),
    )
  })

const begin = async (bug: Bug): Promise<World> => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'instar-swe-')))
  const [source, test] = [`${bug.name}.mjs`, `${bug.name}.test.mjs`]
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, source), codeOf(bug.name, bug.wrong))
  await writeFile(join(folder, test), testOf(bug))
  return {
    async call(name, { path, text }) {
      if (name === 'test') return (await runTest(folder, test)).said
      if (name === 'read')
        return path === source || path === test ? readFile(join(folder, path), 'utf8') : 'error: no such file'
      if (name !== 'write') return `error: there is no tool ${name}`
      if (path !== source) return `error: only ${source} may be written`
      if (typeof text !== 'string' || text.length > FILE_BYTES_MAX)
        return `error: text must have at most ${FILE_BYTES_MAX} bytes`
      await writeFile(join(folder, source), text)
      return 'written'
    },
    async reward() {
      // The test is written again: nothing but the source counts.
      await writeFile(join(folder, test), testOf(bug))
      return (await runTest(folder, test)).passed ? 1 : -1
    },
    end: () => rm(folder, { recursive: true, force: true }),
  }
}

export const swe: Example = {
  name: 'swe',
  about: 'repair a function until its test passes',
  tasks: (seed, count) =>
    Array.from({ length: count }, (_, at) => {
      const bug = pick(drawing(seed * 1_000 + at), BUGS)
      const ask = `The test of ${bug.name}.mjs fails. Read ${bug.name}.mjs and repair it.`
      const tools = [
        tool('read', 'Read a file', ['path']),
        tool('write', 'Write a file', ['path', 'text']),
        tool('test', 'Run the tests', []),
      ]
      return { id: `swe ${seed} ${at}`, ask, tools, turns: 5, begin: () => begin(bug) }
    }),
}

/** What solves the task: for tests. */
export const solutions = BUGS.map((bug) => ({ ...bug, source: codeOf(bug.name, bug.right) }))
