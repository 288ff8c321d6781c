/** The rows that the projections make of the golden log, as digests by table, of each number of their rules. */
import type { Logged } from '@instar/events'
import { followEvents, type EventLog } from '@instar/log'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { initialProjection, project, PROJECTED } from '../../packages/projections/src/project.ts'
import { noRows } from '../../packages/projections/src/rows.ts'
import { digestOfSources, FOLDER } from './golden-states.ts'

export const ROWS = join(FOLDER, 'rows.json')
const SOURCES = 'packages/projections/src'
export const RULES_FILE = `${SOURCES}/project.ts`

export const sourcesOfRows = (): string =>
  digestOfSources(
    ['project', 'turn-rows', 'weight-rows', 'verdict-notes', 'rows', 'fit'].map((file) => `${SOURCES}/${file}.ts`),
  )

/** By number of the rules and table: the number of rows and their digest. */
type Rows = Record<string, Record<string, string>>
export const recordedRows = (): Rows => (existsSync(ROWS) ? (JSON.parse(readFileSync(ROWS, 'utf8')) as Rows) : {})

const sorted = (_: string, value: unknown): unknown =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? value
    : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))

/** Whatever the order of rows and of their columns. */
export const rowDigests = async (log: EventLog): Promise<Record<string, string>> => {
  const [state, rows] = [initialProjection(), noRows()]
  const follower = await followEvents(log, {
    name: 'projections',
    topics: PROJECTED,
    onEvent: (logged: Logged) => project(state, logged, rows),
  })
  await follower.caughtUp()
  await follower.stop()
  return Object.fromEntries(
    Object.entries(rows).map(([table, list]) => {
      const lines = (list as object[]).map((row) => JSON.stringify(row, sorted)).sort()
      return [table, `${lines.length} ${createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16)}`]
    }),
  )
}
