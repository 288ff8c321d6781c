/**
 * A later build: the files of this one, and a second version of some records with one more field each. Its programs run
 * as processes beside those of this build.
 */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FLOW, newestVersion, TOPICS, type RecordName } from '@instar/events'
import { ROOT } from '../../tools/tree.ts'

const SOURCES = ['packages', 'services', 'cli', 'schemas', 'migrations', 'models/tiny/recipe', 'package.json']

export type OtherBuild = { root: string; versions: Record<string, number>; [Symbol.dispose](): void }

/** `tests`: folders of `test` whose programs also run there. */
export const laterBuild = (names: readonly RecordName[], tests: readonly string[]): OtherBuild => {
  const root = mkdtempSync(join(tmpdir(), 'instar-later-'))
  for (const part of [...SOURCES, ...tests.map((name) => join('test', name))])
    cpSync(join(ROOT, part), join(root, part), { recursive: true })
  linkPackages(root)
  const versions = Object.fromEntries(names.map((name) => [name, newestVersion(name) + 1]))
  for (const name of names) {
    const topic = TOPICS.find((one) => (FLOW[one].records as readonly string[]).includes(name))!
    const file = (version: number): string => join(root, 'schemas', topic, `${name}.v${version}.avsc`)
    const schema = JSON.parse(readFileSync(file(newestVersion(name)), 'utf8')) as { fields: unknown[] }
    schema.fields.push({ name: 'mood', type: 'string', default: 'of a later build' })
    writeFileSync(file(versions[name]!), JSON.stringify(schema))
  }
  const flow = join(root, 'packages/events/src/flow.ts')
  const source = readFileSync(flow, 'utf8')
  const patched = source.replace(
    /(const NEWEST_VERSION[^=]*= \{[^}]*?),?\s*\}/,
    `$1, ${Object.entries(versions)
      .map(([name, version]) => `['${name}']: ${version}`)
      .join(', ')} }`,
  )
  if (patched === source) throw new Error('packages/events/src/flow.ts has no table of newest versions')
  writeFileSync(flow, patched)
  return { root, versions, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) }
}

/** Installed packages are those of this build; packages of the repository are copies. */
const linkPackages = (root: string): void => {
  const [from, to] = [join(ROOT, 'node_modules'), join(root, 'node_modules')]
  mkdirSync(join(to, '@instar'), { recursive: true })
  for (const name of readdirSync(from)) if (name !== '@instar') symlinkSync(join(from, name), join(to, name))
  for (const name of readdirSync(join(from, '@instar'))) {
    symlinkSync(
      join(root, realpathSync(join(from, '@instar', name)).slice(realpathSync(ROOT).length + 1)),
      join(to, '@instar', name),
    )
  }
}
