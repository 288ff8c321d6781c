import { deepEqual, doesNotMatch, equal, match } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fieldsOf, readSettings } from '@instar/process'
import { scorerConfig } from '@instar/scorer'
import { trainerConfig } from '@instar/trainer'
import { SECTIONS } from '../../cli/src/learning-settings.ts'
import { ROOT } from '../../tools/tree.ts'
import { generatedPart, partOf } from './learning-settings.ts'

const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8')

/** Variables that docker-compose.yml reads and no process does. */
const COMPOSE_ONLY = [
  'INSTAR_MEMORY',
  'INSTAR_SETTINGS_FILE',
  ...['KEY_ID', 'SECRET_KEY', 'REGION', 'ENDPOINT'].map((name) => `INSTAR_ARCHIVE_${name}`),
]

test('docs/settings.md has the settings of the services’ schemas, each with a description', async () => {
  equal(
    partOf(await read('docs/settings.md')),
    generatedPart(),
    'run `node bootstrap.cjs test/docs/learning-settings.ts`',
  )
  deepEqual(
    SECTIONS.flatMap(fieldsOf)
      .filter(({ description }) => description === '')
      .map(({ name }) => name),
    [],
  )
})

/** Settings that multiply work or set a timer; of others, more costs nothing or is the operator's to choose. */
const LIMITED =
  /^training\.(rank|epochs|learningRate)$|^judge\.concurrency$|^gate\.battery\.(kept|samples|again)$|timeoutMs$/

test('a mistyped number of a setting that multiplies work or sets a timer is refused', () => {
  const limited = SECTIONS.flatMap(fieldsOf).filter(({ name }) => LIMITED.test(name))
  equal(limited.length, 10)
  deepEqual(
    limited.filter(({ expected }) => !/ (to|at most) \d+$/.test(expected)).map(({ name }) => name),
    [],
  )
  const accepts = (step: object): boolean => trainerConfig.safeParse({ step }).success
  deepEqual([{ epochs: 100 }, { epochs: 101 }, { rank: 1024 }, { rank: 1025 }, { learningRate: 1.01 }].map(accepts), [
    true,
    false,
    true,
    false,
    false,
  ])
  // Below 1 every turn would be masked.
  deepEqual([{ sequenceMask: 1 }, { sequenceMask: 0 }, { sequenceMask: 0.5 }].map(accepts), [true, false, false])
})

test('docs/settings.md lists exactly the variables of the environment', async () => {
  const listed = (await read('docs/settings.md'))
    .split('\n')
    .filter((line) => /^\| `[A-Z]/.test(line))
    .flatMap((line) => [...line.split('|')[1]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  const source = await read('packages/process/src/environment.ts')
  const known = [...source.matchAll(/^ {4}([A-Z][A-Z_]+):/gm)].map(([, name]) => name!)
  deepEqual(listed.toSorted(), [...known, ...COMPOSE_ONLY].toSorted())
})

/** Keys and the admin token are in the volume of INSTAR_DATA; PostgreSQL has a container of its own. */
const NOT_PASSED_ON = ['INSTAR_KEYS', 'INSTAR_KEY', 'INSTAR_ADMIN_TOKEN', 'INSTAR_ADMIN_TOKEN_FILE', 'INSTAR_PG_BIN']

test('docker-compose.yml passes each variable that a container reads, and an unset variable stays unset', async () => {
  const source = await read('packages/process/src/environment.ts')
  const known = [...source.matchAll(/^ {4}([A-Z][A-Z_]+):/gm)].map(([, name]) => name!)
  const compose = await read('docker-compose.yml')
  const lines = [...compose.matchAll(/^ {2}([A-Z][A-Z_]+): (.*)$/gm)].map(([, name, value]) => [name!, value!] as const)
  deepEqual(
    known.filter((name) => !lines.some(([passed]) => passed === name)),
    NOT_PASSED_ON,
  )
  const empty = lines.flatMap(([name, value]) => (value === `\${${name}:-}` ? [[name, '']] : []))
  deepEqual(empty.filter(([name]) => /^INSTAR_(KAFKA|REGISTRY)_/.test(name!)).length, 12)
  deepEqual(readSettings(Object.fromEntries(empty) as Record<string, string>, '/'), readSettings({}, '/'))
})

test('the scorer and the trainer have the same default staleness', () => {
  equal(scorerConfig.parse({}).staleness, trainerConfig.parse({}).staleness)
})

/** The containers of a compose file, each as the text of its block and of those that it merges. */
const containersOf = (compose: string): Map<string, string> => {
  const anchors = new Map(
    [...compose.matchAll(/^x-\S+: &(\S+)\n((?:(?: .*)?\n)+)/gm)].map(([, name, text]) => [name!, text!]),
  )
  const merged = (text: string): string =>
    text + [...text.matchAll(/^ +<<: \*(\S+)$/gm)].map(([, name]) => merged(anchors.get(name!) ?? '')).join('')
  const services = /^services:\n((?:(?: .*)?\n)+)/m.exec(compose)?.[1] ?? ''
  const blocks = [...services.matchAll(/^ {2}(\S+):\n((?: {3,}.*\n|\n)+)/gm)]
  return new Map(blocks.map(([, name, text]) => [name!, merged(text!)]))
}

test('each container of the compose files has no capability, gains none, and has bounds on memory and processes', async () => {
  for (const [file, count] of [
    ['docker-compose.yml', 12],
    ['docker-compose.tinker.yml', 3],
  ] as const) {
    const containers = containersOf(await read(file))
    equal(containers.size, count, [...containers.keys()].join())
    for (const [name, text] of containers)
      for (const line of [
        /^ +cap_drop: \[ALL\]$/m,
        /no-new-privileges:true/,
        /^ +pids_limit: \d/m,
        /^ +mem_limit: \S/m,
      ])
        match(text, line, `${file}: ${name}`)
  }
})

test('the engines of docker-compose.tinker.yml are checked for health, and are reached by the pipeline alone', async () => {
  const [main, cpu] = await Promise.all(['docker-compose.tinker.yml', 'docker-compose.tinker-cpu.yml'].map(read))
  const containers = containersOf(main!)
  match(main!, /^networks:\n(?: +#.*\n)* {2}engines:\n {4}internal: true$/m)
  for (const name of ['skyrl', 'vllm']) {
    const text = containers.get(name)!
    for (const line of [
      /^ +healthcheck:\n +test: \["CMD", "python3?", "-c", /m,
      /^ +start_period: \d+s$/m,
      /^ +networks: \[engines\]$/m,
      /^ +restart: unless-stopped$/m,
      /^ +deploy: \*gpu$/m,
    ])
      match(text, line, name)
  }
  match(containers.get('vllm')!, /^ +- instar-adapters:\/instar\/adapters:ro$/m)
  match(main!, /^ +- &model\n(?: {8}.*\n)* {8}read_only: true$/m)
  match(containers.get('adapters')!, /^ +network_mode: none$/m)
  for (const text of [main!, cpu!]) doesNotMatch(text, /^ +(ports|expose|privileged|cap_add|network_mode: host)\b/m)
  doesNotMatch(cpu!, /^ +(networks|mem_limit|healthcheck|cap_drop|security_opt|pids_limit):/m)
  equal(cpu!.match(/^ +deploy: !reset null$/gm)?.length, 2)
})
