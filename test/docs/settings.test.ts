import { deepEqual } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../tree.ts'

const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8')

/** Variables that docker-compose.yml reads and no process does. */
const COMPOSE_ONLY = ['INSTAR_MEMORY']

test('docs/settings.md lists exactly the variables of the environment', async () => {
  const listed = (await read('docs/settings.md'))
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...line.split('|')[1]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  const source = await read('packages/process/src/environment.ts')
  const known = [...source.matchAll(/^ {4}([A-Z][A-Z_]+):/gm)].map(([, name]) => name!)
  deepEqual(listed.toSorted(), [...known, ...COMPOSE_ONLY].toSorted())
})
