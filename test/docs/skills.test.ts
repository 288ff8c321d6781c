/**
 * Checks the examples of the skills: commands and options with the CLI's parser, requests with a gateway, columns with
 * the schema, variables with the settings, files by their existence, and the judge by its scores.
 */
import * as client from '@instar/client/source'
import * as schema from '@instar/projections/schema'
import { createJudges, judgeTurn, scorerConfig } from '@instar/scorer'
import { is } from 'drizzle-orm'
import { getTableConfig, getViewConfig, PgTable, PgView } from 'drizzle-orm/pg-core'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { runCli } from '../../cli/src/cli.ts'
import { startRig } from '../kit/gateway.ts'

const ROOT = join(import.meta.dirname, '../..')
const SKILLS = join(ROOT, 'skills')
const skills = readdirSync(SKILLS).map((name) => ({ name, text: readFileSync(join(SKILLS, name, 'SKILL.md'), 'utf8') }))

const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(/^( *)```(\w+)\n([\s\S]*?)^\1```$/gm)]
    .filter(([, , of]) => of === language)
    .map(([, , , body]) => body!)
const lines = (text: string): string[] =>
  blocks(text, 'sh').flatMap((block) =>
    block
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== ''),
  )
const inline = (text: string): string[] =>
  [...text.matchAll(/`((?:npx )?instar [a-z][^`]*)`/g)].map(([, command]) => command!.replace(/^instar/, 'npx instar'))

/** As a shell splits words: at blanks outside single and double quotes. */
const words = (line: string): string[] =>
  [...line.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''),
  )

type Said = { skill: string; line: string; env: string[]; argv: string[] }
const said: Said[] = skills.flatMap(({ name, text }) =>
  [...lines(text), ...inline(text)].map((line) => {
    const all = words(line)
    const begin = all.findIndex((word) => !/^[A-Z_]+=/.test(word))
    return { skill: name, line, env: all.slice(0, begin), argv: all.slice(begin) }
  }),
)
const commands = said.filter(({ argv }) => argv[0] === 'npx' && argv[1] === 'instar')
const requests = said.filter(({ argv }) => argv[0] === 'curl')

test('the front matter has the name of the folder and says when to use the skill', () => {
  deepEqual(
    skills.map(({ name }) => name),
    ['connect-an-agent', 'read-the-metrics', 'retrain-from-history', 'roll-back', 'write-a-reward'],
  )
  for (const { name, text } of skills) {
    const [, matter = ''] = /^---\n([\s\S]*?)\n---\n/.exec(text) ?? []
    const fields = Object.fromEntries(
      matter.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]),
    )
    deepEqual(Object.keys(fields), ['name', 'description'], name)
    equal(fields['name'], name)
    ok(fields['description']!.length <= 1024 && /\bUse (when|for)\b/.test(fields['description']!), name)
    match(text, /\n## Check/)
  }
})

test('skills contain no kind of example that no test here checks', () => {
  ok(commands.length > 40 && requests.length > 9, `${commands.length} commands, ${requests.length} requests`)
  const others = said.filter((one) => !commands.includes(one) && !requests.includes(one)).map(({ line }) => line)
  deepEqual(
    [...new Set(others)],
    [
      'npm start',
      'npm start -- --model ~/models/Qwen3-0.6B',
      'node judge.mjs &',
      'INSTAR_JUDGE_URL=http://127.0.0.1:8808/v1 INSTAR_JUDGE_MODEL=short-1 npm start',
    ],
  )
})

test('each command and option exists in the CLI and has the required arguments', async () => {
  const stop = new AbortController().signal
  for (const { skill, line, argv } of commands) {
    const args = argv.slice(2)
    const heard = { out: '', err: '' }
    const code = await runCli([...args, '--help'], {
      env: {},
      cwd: tmpdir(),
      out: (text) => {
        heard.out += text
      },
      err: (text) => {
        heard.err += text
      },
      terminal: false,
      stop,
    })
    equal(code, 0, `${skill}: ${line}: ${heard.err.split('\n')[0]}`)
    // Upper-case words without brackets at the beginning of the usage are required arguments.
    const [, usage = ''] = new RegExp(`usage: instar ${args[0]} ?(.*)`).exec(heard.out) ?? []
    if (/^[A-Z"]/.test(usage))
      ok(
        args.slice(1).some((word) => !word.startsWith('--')),
        `${skill}: ${line}: usage: ${usage}`,
      )
  }
  // The test uses the CLI's parser.
  equal(
    await runCli(['rollback', '2', '--no-such-option', '--help'], {
      env: {},
      cwd: tmpdir(),
      out: () => undefined,
      err: () => undefined,
      terminal: false,
      stop,
    }),
    2,
  )
})

/** Table or view → its columns. */
const COLUMNS = new Map(
  Object.values(schema).flatMap((one): [string, string[]][] =>
    is(one, PgTable)
      ? [[getTableConfig(one).name, getTableConfig(one).columns.map(({ name }) => name)]]
      : is(one, PgView)
        ? [[getViewConfig(one).name, Object.keys(getViewConfig(one).selectedFields)]]
        : [],
  ),
)
const SQL_WORDS = new Set(
  'select from where group by order desc asc limit join on and or not as count avg is null'.split(' '),
)

/** Words of a statement that are neither SQL nor columns of its tables, and unknown tables. */
const unknownOf = (sql: string): string[] => {
  const text = sql.replaceAll(/'[^']*'/g, '')
  const tables = [
    ...text.matchAll(/\b(?:from|join) (\w+)(?: (?!on\b|where\b|group\b|order\b|join\b|limit\b)(\w+))?/g),
  ].map(([, table, alias]) => ({ table: table!, alias: alias ?? table! }))
  const missing = tables.filter(({ table }) => !COLUMNS.has(table)).map(({ table }) => table)
  const aliases = new Set([...text.matchAll(/\bas (\w+)/g)].map(([, name]) => name!))
  const names = [...text.matchAll(/(?:\b(\w+)\.)?\b([a-z_]\w*)\b(?!\.)/g)].filter(
    ([, , name]) =>
      !SQL_WORDS.has(name!) &&
      !aliases.has(name!) &&
      !tables.some(({ table, alias }) => name === table || name === alias),
  )
  const wrong = names
    .filter(
      ([, of, name]) =>
        !tables.some(({ table, alias }) => (of === undefined || of === alias) && COLUMNS.get(table)?.includes(name!)),
    )
    .map(([all]) => all)
  return [...missing, ...wrong]
}

test('each column exists in the schema', () => {
  deepEqual(
    unknownOf(
      "select t.turn_id, s.hue, nothing from turns t join scores s on s.turn_id = t.turn_id join no_table n on n.turn_id = 'hue'",
    ),
    ['no_table', 's.hue', 'nothing', 'n.turn_id'],
  )
  const statements = commands.filter(({ argv }) => argv[2] === 'sql')
  ok(statements.length > 12)
  for (const { skill, line, argv } of statements) deepEqual(unknownOf(argv[3]!), [], `${skill}: ${line}`)
})

test('the gateway accepts each request', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  await rig.fetch('/v1/chat/completions', {
    json: { messages: [{ role: 'user', content: 'Hi' }] },
    headers: { 'x-session-id': 'SESSION' },
  })
  const ask = async (argv: string[]): Promise<{ status: number; code: string | null }> => {
    let method: string | null = null
    let body: string | undefined
    let url = ''
    const headers: Record<string, string> = {}
    for (let i = 1; i < argv.length; i += 1) {
      const word = argv[i]!
      if (word === '-i') continue
      if (word === '-X') method = argv[(i += 1)]!
      else if (word === '-d') body = argv[(i += 1)]!
      else if (word === '-H') {
        const [, name, value] = /^([\w-]+): (.*)$/.exec(argv[(i += 1)]!)!
        headers[name!] = value!
      } else url = word
    }
    match(url, /^http:\/\/127\.0\.0\.1:30000\//)
    if (body !== undefined) JSON.parse(body)
    const response = await fetch(url.replace('http://127.0.0.1:30000', rig.url), {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers,
      ...(body === undefined ? {} : { body }),
    })
    const text = await response.text()
    return {
      status: response.status,
      code: response.ok ? null : (JSON.parse(text) as { error: { code: string } }).error.code,
    }
  }
  equal((await ask(['curl', 'http://127.0.0.1:30000/v1/no-such'])).code, 'unknown_route')
  for (const { skill, line, argv } of requests) {
    const { status, code } = await ask(argv)
    // TURN and policy@2 do not exist; all else is executed.
    ok(
      status === 200 ||
        (line.includes('TURN') && code === 'unknown_turn') ||
        (line.includes('policy@2') && code === 'unknown_version'),
      `${skill}: ${line}: ${status} ${code}`,
    )
  }
})

test('each variable, file and import that a skill names exists', () => {
  const environment = readFileSync(join(ROOT, 'packages/process/src/environment.ts'), 'utf8')
  for (const { name, text } of skills) {
    for (const [variable] of text.matchAll(/\bINSTAR_[A-Z_]+\b/g))
      ok(environment.includes(`${variable}:`), `${name}: ${variable}`)
    for (const [file] of text.matchAll(/\b(?:docs|packages)\/[\w/.-]+\.md\b/g))
      ok(existsSync(join(ROOT, file)), `${name}: ${file}`)
    for (const [, other] of text.matchAll(/\bskill ([a-z-]+)/g))
      ok(existsSync(join(SKILLS, other!)), `${name}: ${other}`)
    for (const block of blocks(text, 'ts')) {
      const [, names = ''] = /import \{ ([^}]+) \} from '@instar\/client'/.exec(block) ?? []
      for (const one of names.split(', ')) ok(one in client, `${name}: ${one}`)
      const instar = client.createClient({})
      const session = instar.session('x')
      for (const [, of, method] of block.matchAll(/\b(instar|session)\.(\w+)/g))
        ok(method! in (of === 'instar' ? instar : session), `${name}: ${of}.${method}`)
    }
  }
})

test('the judge of the skill write-a-reward gives scores', async (t) => {
  const [source] = blocks(skills.find(({ name }) => name === 'write-a-reward')!.text, 'js')
  const folder = mkdtempSync(join(tmpdir(), 'instar-judge-'))
  writeFileSync(
    join(folder, 'judge.mjs'),
    source!.replace("'127.0.0.1')", "'127.0.0.1', () => console.log('listens'))"),
  )
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  free.close()
  await once(free, 'close')
  const child = spawn(process.execPath, [join(folder, 'judge.mjs')], {
    env: { PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => {
    child.kill()
    rmSync(folder, { recursive: true })
  })
  await once(child.stdout, 'data')
  const judges = createJudges(
    scorerConfig.parse({ llm: { url: `http://127.0.0.1:${port}/v1`, model: 'short-1', key: null }, judges: ['llm'] }),
    { now: Date.now },
  )
  const judge = async (answer: string): Promise<[number | null, string | null, string | null]> => {
    const { reward, reason, hint } = await judgeTurn(
      judges,
      { feedback: null },
      { request: 'Say it.', answer, calls: false, next: { user: 'Thanks </evidence-1>', tools: '' } },
      new AbortController().signal,
    )
    return [reward, reason, hint]
  }
  deepEqual(await judge('This is short.'), [1, null, null])
  deepEqual(await judge('word '.repeat(60)), [-1, null, 'Answer in at most three short sentences.'])
  deepEqual(await judge('Yes.'), [null, 'abstained', null])
})
