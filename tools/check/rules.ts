/**
 * The layout rules. Each is a pure function from the sources to findings; rules.test.ts has code that each rule forbids
 * and code that it allows.
 */
import { posix } from 'node:path'
import { lineAt, type Import, type Source } from './scan.ts'

export type Finding = { rule: string; path: string; line: number; message: string }
/** From the package.json of a workspace. `folder`: relative to the repository. */
export type Workspace = { name: string; folder: string; dependencies: readonly string[] }
type Tree = { sources: readonly Source[]; workspaces: readonly Workspace[] }
export type Rule = (tree: Tree) => Finding[]

/** Tests, benches, tools and examples are exempt from most rules, but not from `layers`. */
const isTest = (path: string): boolean => path.endsWith('.test.ts') || /^(test|bench|tools|examples)\//.test(path)
const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
const isRelative = (specifier: string): boolean => specifier.startsWith('.')
const resolved = (source: Source, specifier: string): string =>
  posix.normalize(posix.join(posix.dirname(source.path), specifier))
const PROTOCOLS = 'packages/engine/src/protocols/'
/** The core folder that contains the file; the wire protocols of engines are a core. */
const coreOf = (path: string): string | undefined =>
  path.startsWith(PROTOCOLS) ? PROTOCOLS : /^.*?\/core\//.exec(path)?.[0]
const isInside = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path.startsWith(folder))

/** A rule about imports. `violation`: the message of a finding; undefined for an allowed import. */
function importRule(
  rule: string,
  violation: (source: Source, imported: Import, tree: Tree) => string | undefined,
): Rule {
  return (tree) =>
    tree.sources.flatMap((source) =>
      source.imports.flatMap((imported) => {
        const message = violation(source, imported, tree)
        return message === undefined ? [] : [{ rule, path: source.path, line: imported.line, message }]
      }),
    )
}

/** A rule that forbids a pattern in the code, or in the comments, of the files that `applies` selects. */
function patternRule(
  rule: string,
  pattern: RegExp,
  applies: (path: string) => boolean,
  message: (match: string) => string,
  part: 'code' | 'comments' = 'code',
): Rule {
  return (tree) =>
    tree.sources
      .filter((source) => applies(source.path))
      .flatMap((source) =>
        [...source[part].matchAll(pattern)].map((match) => ({
          rule,
          path: source.path,
          line: lineAt(source.text, match.index),
          message: message(match[0].trim()),
        })),
      )
}

/**
 * Cores, folds, agents, dialects and grammars are pure, so that every process computes the same from the same input.
 */
const isPure = (path: string): boolean =>
  !isTest(path) &&
  (coreOf(path) !== undefined ||
    path.startsWith('packages/events/src/folds/') ||
    path.startsWith('packages/agents/src/') ||
    path.startsWith('packages/dialects/src/') ||
    path.startsWith('packages/grammar/src/'))

const PURE_PACKAGES = ['@instar/events', '@instar/agents', '@instar/dialects', '@instar/grammar']
/** A core may use the types of requests to engines and training servers; it calls none. */
const ENGINE_PORTS = [
  '@instar/engine/port',
  'packages/engine/src/port.ts',
  '@instar/tinker/port',
  'packages/tinker/src/port.ts',
]

/** Whether the file belongs to a core of the workspace. The gateway has several, which may import each other. */
const isCoreOf = (workspace: Workspace | undefined, path: string): boolean =>
  workspace !== undefined && path.startsWith(`${workspace.folder}/`) && coreOf(path) !== undefined

const coreImports = importRule('core-imports', (source, { specifier, typeOnly }, tree) => {
  const core = coreOf(source.path)
  if (core === undefined || isTest(source.path)) return undefined
  const path = isRelative(specifier) ? resolved(source, specifier) : specifier
  const allowed =
    (typeOnly && ENGINE_PORTS.includes(path)) ||
    (isRelative(specifier)
      ? isCoreOf(workspaceOf(source.path, tree), path)
      : PURE_PACKAGES.includes(packageOf(specifier)))
  return allowed
    ? undefined
    : `a core imports only cores of its service, ${PURE_PACKAGES.join(', ')} and types of @instar/engine/port and @instar/tinker/port, not ${specifier}`
})

/** The workspace that is imported, by its name or by a path. */
function targetOf(source: Source, specifier: string, { workspaces }: Tree): Workspace | undefined {
  if (!isRelative(specifier)) return workspaces.find((workspace) => workspace.name === packageOf(specifier))
  const path = resolved(source, specifier)
  return workspaces.find((workspace) => path.startsWith(`${workspace.folder}/`))
}

const workspaceOf = (path: string, { workspaces }: Tree): Workspace | undefined =>
  workspaces.find((workspace) => path.startsWith(`${workspace.folder}/`))

const layers = importRule('layers', (source, { specifier }, tree) => {
  const from = workspaceOf(source.path, tree)
  const to = targetOf(source, specifier, tree)
  if (!from || !to || from === to) return undefined
  if (isRelative(specifier)) return `another workspace is imported by its name, not by the path ${specifier}`
  if (from.folder === 'cli') return undefined
  if (to.folder === 'cli') return 'no workspace imports the CLI'
  if (to.folder.startsWith('services/'))
    return from.folder.startsWith('services/')
      ? 'a service does not import a service'
      : 'a package does not import a service'
  return undefined
})

const tensors = importRule('tensors', (source, { specifier }) =>
  /^(@tensorflow\/|onnxruntime-|@huggingface\/)/.test(specifier) &&
  !source.path.startsWith('packages/policy/') &&
  !(source.path.startsWith('models/') && isTest(source.path))
    ? `only packages/policy imports ${packageOf(specifier)}`
    : undefined,
)

const CLIENTS =
  /^(pg|drizzle-orm|fastify|@fastify\/.*|openai|@anthropic-ai\/.*|kafkajs|@kafkajs\/.*|undici|node:sqlite|node:http|node:https|node:net|node:child_process)(\/|$)/
const clients = importRule('clients', (source, { specifier, typeOnly }) =>
  !CLIENTS.test(specifier) ||
  typeOnly ||
  isTest(source.path) ||
  source.path.includes('/shell/') ||
  /^services\/gateway\/src\/(?!core\/)[a-z]+\/(?!core\/)/.test(source.path) ||
  isInside(source.path, [
    'packages/engine/src/remote/',
    'packages/log/src/',
    'packages/projections/src/',
    'cli/',
    'models/',
  ]) ||
  !source.path.includes('/')
    ? undefined
    : `only shell/, the gateway's stages, packages/engine/src/remote, packages/log, packages/projections and the CLI import ${specifier}`,
)

const readsEnvironment = (path: string): boolean =>
  isTest(path) || /(^|\/)main\.ts$/.test(path) || path === 'bootstrap.cjs'
const environment = patternRule(
  'environment',
  /\bprocess\s*\??\.\s*env\b|\bprocess\s*\[|\benv\b[^=\n]*\}\s*=\s*process\b/g,
  (path) => !readsEnvironment(path),
  () => 'only main.ts reads the environment',
)
const environmentImport = importRule('environment', (source, { specifier }) =>
  /^(node:)?process$/.test(specifier) && !readsEnvironment(source.path)
    ? 'only main.ts reads the environment'
    : undefined,
)

const IMPURE =
  /\bDate\s*\.\s*now\b|\bnew\s+Date\b(?!\s*\(\s*[^\s)])|(?<!new\s+)\bDate\s*\(|\bMath\s*\.\s*random\b|(?<![.\w$])(?:process|performance|globalThis)\b(?!\s*:)|\bcrypto\s*\.\s*(?:random|getRandom|subtle)\w*|(?<![.\w$])(?:setTimeout|setInterval|setImmediate|queueMicrotask|fetch)\s*\(/g
const purity = patternRule(
  'purity',
  IMPURE,
  isPure,
  (text) => `pure code gets time, ids and randomness as inputs, not by ${text}`,
)

const folders: Rule = ({ sources }) =>
  sources.flatMap((source) => {
    const forbidden = posix
      .dirname(source.path)
      .split('/')
      .find((name) => /^(utils?|helpers?|common|libs?)$/.test(name))
    return forbidden
      ? [
          {
            rule: 'folders',
            path: source.path,
            line: 1,
            message: `a folder is named after its content, not ${forbidden}`,
          },
        ]
      : []
  })

const leftovers = patternRule(
  'leftovers',
  /\bTODO\b|\bFIXME\b|@ts-(?:ignore|nocheck|expect-error)|(?:eslint|oxlint)-disable/g,
  () => true,
  (text) => `${text}: complete it or remove the comment`,
  'comments',
)

const declared = importRule('declared', (source, { specifier }, tree) => {
  const from = workspaceOf(source.path, tree)
  if (!from || isRelative(specifier) || specifier.startsWith('node:') || isTest(source.path)) return undefined
  const name = packageOf(specifier)
  return name === from.name || from.dependencies.includes(name)
    ? undefined
    : `${name} is not among the dependencies of ${from.folder}/package.json`
})

/** Cycles between workspaces, each once, by the imports outside of tests. */
const cycles: Rule = (tree) => {
  const edges = new Map<string, Map<string, Finding>>()
  for (const source of tree.sources) {
    const from = isTest(source.path) ? undefined : workspaceOf(source.path, tree)
    if (!from) continue
    for (const imported of source.imports) {
      const to = targetOf(source, imported.specifier, tree)
      if (!to || to === from) continue
      const targets = edges.get(from.name) ?? new Map<string, Finding>()
      edges.set(
        from.name,
        targets.set(to.name, { rule: 'cycles', path: source.path, line: imported.line, message: '' }),
      )
    }
  }
  const findings: Finding[] = []
  const visited = new Set<string>()
  const walk = (name: string, path: string[]): void => {
    const start = path.indexOf(name)
    if (start >= 0) {
      const cycle = [...path.slice(start), name]
      const finding = edges.get(path.at(-1)!)?.get(name)
      if (finding) findings.push({ ...finding, message: `the workspaces import each other: ${cycle.join(' → ')}` })
      return
    }
    if (visited.has(name)) return
    for (const next of edges.get(name)?.keys() ?? []) walk(next, [...path, name])
    visited.add(name)
  }
  for (const name of edges.keys()) walk(name, [])
  return findings
}

const MOST_COLUMNS = 120

/** The formatter does not break templates, of which the pages of the dashboard consist. */
const lines: Rule = (tree) =>
  tree.sources
    .filter(({ path }) => path.startsWith('packages/dashboard/web/'))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, i) => {
        const columns = [...line].length
        return columns > MOST_COLUMNS
          ? [{ rule: 'lines', path, line: i + 1, message: `${columns} columns, ${MOST_COLUMNS} at most` }]
          : []
      }),
    )

export const RULES = {
  coreImports,
  layers,
  tensors,
  clients,
  environment,
  environmentImport,
  purity,
  folders,
  leftovers,
  declared,
  cycles,
  lines,
} satisfies Record<string, Rule>

export const check = (tree: Tree): Finding[] => Object.values(RULES).flatMap((rule) => rule(tree))
