/**
 * The rules of the layout, checked over the sources. Each is a pure function from all sources to findings;
 * rules.test.ts shows that each finds what it forbids and lets pass what it allows.
 */
import { posix } from 'node:path'
import { lineAt, type Import, type Source } from './scan.ts'

export type Finding = { rule: string; path: string; line: number; message: string }
/** What package.json files say: workspace name → folder and declared dependencies. */
export type Workspace = { name: string; folder: string; dependencies: readonly string[] }
export type Tree = { sources: readonly Source[]; workspaces: readonly Workspace[] }
export type Rule = (tree: Tree) => Finding[]

/** Tests may see what they test with; the layers hold for them too. */
const isTest = (path: string): boolean => path.endsWith('.test.ts') || /^(test|bench|tools)\//.test(path)
const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
const isRelative = (specifier: string): boolean => specifier.startsWith('.')
const resolved = (source: Source, specifier: string): string =>
  posix.normalize(posix.join(posix.dirname(source.path), specifier))
const PROTOCOLS = 'packages/engine/src/protocols/'
/** The folder of the core that a file belongs to; the wire protocols of engines are one. */
const coreOf = (path: string): string | undefined =>
  path.startsWith(PROTOCOLS) ? PROTOCOLS : /^.*?\/core\//.exec(path)?.[0]
const inside = (path: string, folders: readonly string[]): boolean => folders.some((folder) => path.startsWith(folder))

/** A finding for each import of each source that `forbidden` gives a message for. */
function imports(rule: string, forbidden: (source: Source, found: Import, tree: Tree) => string | undefined): Rule {
  return (tree) =>
    tree.sources.flatMap((source) =>
      source.imports.flatMap((found) => {
        const message = forbidden(source, found, tree)
        return message === undefined ? [] : [{ rule, path: source.path, line: found.line, message }]
      }),
    )
}

/** A finding for each match of a pattern in the code (or the comments) of the sources that `where` picks. */
function pattern(
  rule: string,
  expression: RegExp,
  where: (path: string) => boolean,
  message: (text: string) => string,
  of: 'code' | 'comments' = 'code',
): Rule {
  return (tree) =>
    tree.sources
      .filter((source) => where(source.path))
      .flatMap((source) =>
        [...source[of].matchAll(expression)].map((match) => ({
          rule,
          path: source.path,
          line: lineAt(source.text, match.index),
          message: message(match[0].trim()),
        })),
      )
}

/** Cores, the shared folds, the dialects and the grammars: pure, so that every reader computes the same. */
const isPure = (path: string): boolean =>
  !isTest(path) &&
  (coreOf(path) !== undefined ||
    path.startsWith('packages/events/src/folds/') ||
    path.startsWith('packages/agents/src/') ||
    path.startsWith('packages/dialects/src/') ||
    path.startsWith('packages/grammar/src/'))

const PURE_PACKAGES = ['@instar/events', '@instar/agents', '@instar/dialects', '@instar/grammar']
/** Requests to engines and their answers, as types: a core describes them and calls no engine. */
const ENGINE_PORT = ['@instar/engine/port', 'packages/engine/src/port.ts']

/** The gateway has a core in each stage; they may use one another. */
const isCoreOf = (workspace: Workspace | undefined, path: string): boolean =>
  workspace !== undefined && path.startsWith(`${workspace.folder}/`) && coreOf(path) !== undefined

const coreImports = imports('core-imports', (source, { specifier, typeOnly }, tree) => {
  const core = coreOf(source.path)
  if (core === undefined || isTest(source.path)) return undefined
  const path = isRelative(specifier) ? resolved(source, specifier) : specifier
  const allowed =
    (typeOnly && ENGINE_PORT.includes(path)) ||
    (isRelative(specifier) ? isCoreOf(owner(source.path, tree), path) : PURE_PACKAGES.includes(packageOf(specifier)))
  return allowed
    ? undefined
    : `a core imports only cores of its service, ${PURE_PACKAGES.join(', ')} and types of @instar/engine/port, not ${specifier}`
})

/** The folder that an import of a workspace, by name or by path, ends up in. */
function target(source: Source, specifier: string, { workspaces }: Tree): Workspace | undefined {
  if (!isRelative(specifier)) return workspaces.find((workspace) => workspace.name === packageOf(specifier))
  const path = resolved(source, specifier)
  return workspaces.find((workspace) => path.startsWith(`${workspace.folder}/`))
}

const owner = (path: string, { workspaces }: Tree): Workspace | undefined =>
  workspaces.find((workspace) => path.startsWith(`${workspace.folder}/`))

const layers = imports('layers', (source, { specifier }, tree) => {
  const from = owner(source.path, tree)
  const to = target(source, specifier, tree)
  if (!from || !to || from === to) return undefined
  if (isRelative(specifier)) return `another workspace is imported by its name, not by ${specifier}`
  if (from.folder === 'cli') return undefined
  if (to.folder === 'cli') return 'nothing imports the CLI'
  if (to.folder.startsWith('services/'))
    return from.folder.startsWith('services/') ? 'services never import services' : 'packages never import services'
  return undefined
})

const tensors = imports('tensors', (source, { specifier }) =>
  /^(@tensorflow\/|onnxruntime-|@huggingface\/)/.test(specifier) &&
  !source.path.startsWith('packages/policy/') &&
  !(source.path.startsWith('models/') && isTest(source.path))
    ? `only packages/policy sees ${packageOf(specifier)}`
    : undefined,
)

const CLIENTS =
  /^(pg|drizzle-orm|fastify|@fastify\/.*|openai|@anthropic-ai\/.*|kafkajs|@kafkajs\/.*|undici|node:sqlite|node:http|node:https|node:net|node:child_process)(\/|$)/
const clients = imports('clients', (source, { specifier, typeOnly }) =>
  !CLIENTS.test(specifier) ||
  typeOnly ||
  isTest(source.path) ||
  source.path.includes('/shell/') ||
  /^services\/gateway\/src\/(?!core\/)[a-z]+\/(?!core\/)/.test(source.path) ||
  inside(source.path, [
    'packages/engine/src/remote/',
    'packages/log/src/',
    'packages/projections/src/',
    'cli/',
    'models/',
  ]) ||
  !source.path.includes('/')
    ? undefined
    : `clients are seen by shell/, the gateway's stages, packages/engine/src/remote, packages/log, packages/projections and the CLI only, not ${specifier} here`,
)

const readsEnvironment = (path: string): boolean =>
  isTest(path) || /(^|\/)main\.ts$/.test(path) || path === 'bootstrap.cjs'
const environment = pattern(
  'environment',
  /\bprocess\s*\??\.\s*env\b|\bprocess\s*\[|\benv\b[^=\n]*\}\s*=\s*process\b/g,
  (path) => !readsEnvironment(path),
  () => 'only main.ts reads the environment',
)
const environmentImport = imports('environment', (source, { specifier }) =>
  /^(node:)?process$/.test(specifier) && !readsEnvironment(source.path)
    ? 'only main.ts reads the environment'
    : undefined,
)

const IMPURE =
  /\bDate\s*\.\s*now\b|\bnew\s+Date\b(?!\s*\(\s*[^\s)])|(?<!new\s+)\bDate\s*\(|\bMath\s*\.\s*random\b|(?<![.\w$])(?:process|performance|globalThis)\b(?!\s*:)|\bcrypto\s*\.\s*(?:random|getRandom|subtle)\w*|(?<![.\w$])(?:setTimeout|setInterval|setImmediate|queueMicrotask|fetch)\s*\(/g
const purity = pattern(
  'purity',
  IMPURE,
  isPure,
  (text) => `time, ids and randomness enter through the shell, never by ${text}`,
)

const folders: Rule = ({ sources }) =>
  sources.flatMap((source) => {
    const bad = posix
      .dirname(source.path)
      .split('/')
      .find((name) => /^(utils?|helpers?|common|libs?)$/.test(name))
    return bad
      ? [{ rule: 'folders', path: source.path, line: 1, message: `a folder says what is in it, not ${bad}` }]
      : []
  })

const leftovers = pattern(
  'leftovers',
  /\bTODO\b|\bFIXME\b|@ts-(?:ignore|nocheck|expect-error)|(?:eslint|oxlint)-disable/g,
  () => true,
  (text) => `${text}: finish it, or say nothing`,
  'comments',
)

const declared = imports('declared', (source, { specifier }, tree) => {
  const from = owner(source.path, tree)
  if (!from || isRelative(specifier) || specifier.startsWith('node:') || isTest(source.path)) return undefined
  const name = packageOf(specifier)
  return name === from.name || from.dependencies.includes(name)
    ? undefined
    : `${name} is not among the dependencies of ${from.folder}/package.json`
})

/** Workspaces that import each other in a ring, each ring once, by the imports that are not of tests. */
const cycles: Rule = (tree) => {
  const edges = new Map<string, Map<string, Finding>>()
  for (const source of tree.sources) {
    const from = isTest(source.path) ? undefined : owner(source.path, tree)
    if (!from) continue
    for (const found of source.imports) {
      const to = target(source, found.specifier, tree)
      if (!to || to === from) continue
      const known = edges.get(from.name) ?? new Map<string, Finding>()
      edges.set(from.name, known.set(to.name, { rule: 'cycles', path: source.path, line: found.line, message: '' }))
    }
  }
  const findings: Finding[] = []
  const done = new Set<string>()
  const walk = (name: string, path: string[]): void => {
    const start = path.indexOf(name)
    if (start >= 0) {
      const ring = [...path.slice(start), name]
      const finding = edges.get(path.at(-1)!)?.get(name)
      if (finding) findings.push({ ...finding, message: `packages import each other: ${ring.join(' → ')}` })
      return
    }
    if (done.has(name)) return
    for (const next of edges.get(name)?.keys() ?? []) walk(next, [...path, name])
    done.add(name)
  }
  for (const name of edges.keys()) walk(name, [])
  return findings
}

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
} satisfies Record<string, Rule>

export const check = (tree: Tree): Finding[] => Object.values(RULES).flatMap((rule) => rule(tree))
