import { deepEqual, equal } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { check, RULES, type Workspace } from './rules.ts'
import { scan } from './scan.ts'

const WORKSPACES: Workspace[] = [
  { name: '@instar/events', folder: 'packages/events', dependencies: [] },
  { name: '@instar/log', folder: 'packages/log', dependencies: ['@instar/events'] },
  { name: '@instar/policy', folder: 'packages/policy', dependencies: ['@tensorflow/tfjs-core'] },
  { name: '@instar/engine', folder: 'packages/engine', dependencies: ['@instar/events', 'undici'] },
  { name: '@instar/grammar', folder: 'packages/grammar', dependencies: ['@instar/events'] },
  {
    name: '@instar/gateway',
    folder: 'services/gateway',
    dependencies: ['@instar/engine', '@instar/events', '@instar/grammar', '@instar/log', 'fastify'],
  },
  { name: '@instar/scorer', folder: 'services/scorer', dependencies: ['@instar/events'] },
  { name: '@instar/cli', folder: 'cli', dependencies: ['@instar/gateway', '@instar/scorer', 'pg'] },
]

/** `rule:line` of each finding. `files`: path → text. */
const findings = (files: Record<string, string>): string[] =>
  check({ sources: Object.entries(files).map(([path, text]) => scan(path, text)), workspaces: WORKSPACES }).map(
    ({ rule, line }) => `${rule}:${line}`,
  )

const forbidden: [name: string, files: Record<string, string>, found: string[]][] = [
  [
    'core imports the shell',
    { 'services/gateway/src/core/a.ts': "import { x } from '../shell/http.ts'\n" },
    ['core-imports:1'],
  ],
  [
    'core imports a built-in module',
    { 'services/gateway/src/core/a.ts': "\nimport { createHash } from 'node:crypto'\n" },
    ['core-imports:2'],
  ],
  [
    'core imports another package, over several lines',
    { 'services/gateway/src/core/a.ts': "import {\n  type EventLog,\n} from '@instar/log'\n" },
    ['core-imports:1'],
  ],
  [
    'core uses import()',
    { 'services/gateway/src/core/a.ts': "export const x = () => import('fastify')\n" },
    ['core-imports:1', 'clients:1'],
  ],
  [
    'core imports an engine, and values of its port',
    {
      'services/gateway/src/core/a.ts': "import type { Remote } from '@instar/engine'\nimport '@instar/engine/port'\n",
    },
    ['core-imports:1', 'core-imports:2'],
  ],
  [
    'a wire protocol imports its transport',
    { 'packages/engine/src/protocols/a.ts': "import '../remote/http.ts'\nimport '../port.ts'\nDate.now()\n" },
    ['core-imports:1', 'core-imports:2', 'purity:3'],
  ],
  ['a clock in a grammar', { 'packages/grammar/src/a.ts': 'const now = Date.now()\n' }, ['purity:1']],
  [
    'a service imports a service',
    { 'services/scorer/src/app.ts': "export * from '@instar/gateway/config'\n" },
    ['layers:1', 'declared:1'],
  ],
  [
    'a service imports a service by path',
    { 'services/scorer/src/app.ts': "import '../../gateway/src/app.ts'\n" },
    ['layers:1'],
  ],
  [
    'a package imports a service',
    { 'packages/log/src/a.ts': "import type { A } from '@instar/scorer'\n" },
    ['layers:1', 'declared:1'],
  ],
  ['a service imports the CLI', { 'services/scorer/src/app.ts': "import '@instar/cli'\n" }, ['layers:1', 'declared:1']],
  [
    'a tensor library outside packages/policy',
    { 'services/gateway/src/shell/a.ts': "import '@tensorflow/tfjs-core'\nconst t = require('onnxruntime-node')\n" },
    ['tensors:1', 'tensors:2', 'declared:1', 'declared:2'],
  ],
  [
    'a client outside the shell',
    { 'services/gateway/src/app.ts': "import { fastify } from 'fastify'\n" },
    ['clients:1'],
  ],
  [
    'SQLite in a service',
    { 'services/scorer/src/app.ts': "import { DatabaseSync } from 'node:sqlite'\n" },
    ['clients:1'],
  ],
  [
    'the environment in a config',
    { 'services/gateway/src/config.ts': 'export const port = process.env.PORT\n' },
    ['environment:1'],
  ],
  ['the environment by destructuring', { 'cli/src/a.ts': 'const { env } = process\n' }, ['environment:1']],
  ['the environment by import', { 'cli/src/a.ts': "import { env } from 'node:process'\n" }, ['environment:1']],
  [
    'clock, randomness and process in a core',
    {
      'services/gateway/src/core/a.ts':
        'a = Date.now()\nb = new Date()\nc = Math.random()\nd = process.pid\ne = performance.now()\nf = crypto.randomUUID()\ng = new Date\nsetTimeout(a, 1)\n',
    },
    [1, 2, 3, 4, 5, 6, 7, 8].map((line) => `purity:${line}`),
  ],
  ['a clock in a shared fold', { 'packages/events/src/folds/a.ts': 'const now = `${Date.now()}`\n' }, ['purity:1']],
  ['a folder named utils', { 'packages/log/src/utils/a.ts': '' }, ['folders:1']],
  [
    'leftovers',
    { 'packages/log/src/a.ts': '// TODO later\nx() // @ts-ignore\n/* eslint-disable */\n' },
    ['leftovers:1', 'leftovers:2', 'leftovers:3'],
  ],
  ['an undeclared dependency', { 'packages/log/src/a.ts': "import 'zod'\n" }, ['declared:1']],
  [
    'a cycle of packages',
    { 'packages/events/src/a.ts': "import '@instar/log'\n", 'packages/log/src/a.ts': "import '@instar/events'\n" },
    ['declared:1', 'cycles:1'],
  ],
  [
    'a line of 121 columns in a page, also within a template',
    { 'packages/dashboard/web/pages/a.ts': `const a = html\`\n${'–'.repeat(121)}\n${'–'.repeat(119)}\`\n` },
    ['lines:2'],
  ],
]

const allowed: [name: string, files: Record<string, string>][] = [
  [
    'core imports its core and @instar/events',
    { 'services/gateway/src/core/a/b.ts': "import '../c.ts'\nimport type { Event } from '@instar/events/records'\n" },
  ],
  [
    'core imports types of the engine port, and grammars',
    {
      'services/gateway/src/core/a.ts':
        "import type { Sampling } from '@instar/engine/port'\nimport { keyOf } from '@instar/grammar'\n",
      'packages/engine/src/protocols/a.ts': "import type { Sampling } from '../port.ts'\nimport './b.ts'\n",
    },
  ],
  ['an HTTP client in the remote engines', { 'packages/engine/src/remote/a.ts': "import { Pool } from 'undici'\n" }],
  [
    'forbidden code in strings, comments, templates and regular expressions',
    {
      'services/gateway/src/core/a.ts':
        "// Date.now()\n/* Math.random() */\nconst a = 'process.env'\nconst b = `Date.now() ${a}`\nconst c = /new Date()'/.test(a)\nconst d = \"import 'fastify'\"\n",
    },
  ],
  [
    'a Date of a given time',
    {
      'services/gateway/src/core/a.ts':
        'export const day = (at: number) => new Date(at).toISOString()\ntype T = { process: string }\n',
    },
  ],
  [
    'a test of a core',
    { 'services/gateway/src/core/a.test.ts': "import { test } from 'node:test'\nconst now = Date.now()\n" },
  ],
  [
    'a client in the shell, its type in any file',
    {
      'services/gateway/src/receive/http.ts': "import { fastify } from 'fastify'\n",
      'services/gateway/src/app.ts': "import type { FastifyInstance } from 'fastify'\n",
    },
  ],
  [
    'the CLI starts services',
    { 'cli/src/commands/up.ts': "import '@instar/gateway'\nimport '@instar/scorer'\nimport 'pg'\n" },
  ],
  ['main reads the environment', { 'services/gateway/src/main.ts': 'const env = process.env\n' }],
  ['tensors in the policy', { 'packages/policy/src/a.ts': "import * as tf from '@tensorflow/tfjs-core'\n" }],
]

describe('layout rules', () => {
  for (const [name, files, found] of forbidden)
    test(`forbidden: ${name}`, () => deepEqual(findings(files).toSorted(), found.toSorted()))
  for (const [name, files] of allowed) test(`allowed: ${name}`, () => deepEqual(findings(files), []))
  test('each rule has forbidden code in this test', () => {
    const found = new Set(forbidden.flatMap(([, , lines]) => lines.map((line) => line.split(':')[0])))
    const names = Object.keys(RULES).map(
      (name) => ({ coreImports: 'core-imports', environmentImport: 'environment' })[name] ?? name,
    )
    deepEqual(
      names.filter((name) => !found.has(name)),
      [],
    )
  })
  test('the scanner keeps offsets and lines', () => {
    const text = 'const a = `x${b ? `y${"}"}` : 1}z` // end\nconst r = a / 2 / "q"\n'
    const { code } = scan('a.ts', text)
    equal(code.length, text.length)
    equal(code, 'const a = ` ${b ? ` ${" "}` : 1} `       \nconst r = a / 2 / " "\n')
  })
})
