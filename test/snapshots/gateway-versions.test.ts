/** The gateway's stored state has a version, which covers its files and its table of names. */
import assert from 'node:assert/strict'
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FoldFile } from '@instar/log'
import { STATE_VERSION, type GatewayVersion } from '../../services/gateway/src/session/snapshot.ts'
import {
  comparedGateway,
  foldGateway,
  GATEWAY_VERSION_FILE,
  goldenGateways,
  inGatewayFolder,
  LIMITS,
  sourcesOfGateway,
  stateOf,
  type FoldedGateway,
} from './golden-gateway.ts'
import { emptyTables, goldenLog, recordedSources, SHARE } from './golden-states.ts'

const raise = `raise STATE_VERSION in ${GATEWAY_VERSION_FILE}`

test('this build folds the state of the golden snapshot of each version, its names included, and continues from it', async () => {
  const goldens = goldenGateways()
  const { number, migrations, names } = STATE_VERSION
  assert.equal(goldens.at(-1), number, 'write it: node bootstrap.cjs test/snapshots/golden.ts')
  for (const version of goldens) {
    const { golden, again, from, whole } = await comparedGateway(version)
    const steps = Array.from({ length: number - version }, (_, i) => version + i)
    const reachable = version >= names && steps.every((at) => migrations.turns[at] && migrations.weights[at])
    if (reachable) assert.deepEqual(stateOf(golden), stateOf(again), raise)
    assert.deepEqual(stateOf(from), stateOf(whole), raise)
    assert.equal(from.read < whole.read, reachable, `version ${version}`)
    if (version !== number) continue
    // The builds before the number wrote the golden snapshot of version 1: it is taken over.
    assert.deepEqual(from.lines, [])
    for (const part of ['turns', 'weights'] as const)
      assert.deepEqual(emptyTables({ golden: golden[part], from: from[part] } as never), [], 'tables without rows')
    assert.equal(golden.recent, LIMITS.sessions)
    assert.ok(golden.names.length > 100 && from.expired > 100, `${golden.names.length}, ${from.expired}`)
  }
})

test('its sources are those of its version', () => {
  assert.equal(
    sourcesOfGateway(),
    recordedSources()['gateway'],
    `the sources of the gateway's state have changed. If the state or its fold has, ${raise}, with migrations where the old state ` +
      'has what the new one needs. Then, or if neither has: node bootstrap.cjs test/snapshots/golden.ts',
  )
})

const NAMES = 'gateway.policy.turns.db.names'
const nothing = (): undefined => undefined
/** Of the next version: another mark of a minted id. */
const next = (names: number): GatewayVersion => ({
  ...STATE_VERSION,
  number: 3,
  migrations: {
    turns: { 1: nothing, 2: (file: FoldFile) => file.set('marks', 'minted', Buffer.from('"session"')) },
    weights: { 1: nothing, 2: nothing },
  },
  names,
})

const [log, first] = [await goldenLog({ turns: 1 }), await goldenLog({ turns: 1, share: SHARE })]
const open = (folder: string, version?: GatewayVersion): Promise<FoldedGateway> => foldGateway(first, folder, version)
const { turns } = await first.ends(['turns'])

test('a migration to the next version keeps positions and names', () =>
  inGatewayFolder(1, async (folder) => {
    const before = await open(folder)
    const migrated = await open(folder, next(1))
    assert.equal(migrated.read, 0)
    assert.equal(migrated.turns.rows['marks']!['minted'], 'session')
    assert.deepEqual(migrated.names, before.names)
    const line = (topic: string): string => `gateway.policy.${topic}: the snapshot was migrated from v2 to v3`
    assert.deepEqual(migrated.lines, ['turns', 'weights'].map(line))
    assert.deepEqual((await open(folder, next(1))).lines, [])
  }))

test('a table of names of an earlier form is made again from the log, once, beside the state with the earlier one', () =>
  inGatewayFolder(1, async (folder) => {
    const again = await open(folder, next(2))
    assert.equal(again.read, turns![0])
    assert.match(again.lines.join('\n'), /turns: the snapshot is not used \(another build wrote it\); the log is read/)
    assert.match(again.mark!, / 3$/)
    const settled = await open(folder, next(2))
    assert.deepEqual([settled.read, settled.lines], [0, []])
    const names = readdirSync(folder).filter((file) => file.endsWith('.names'))
    assert.deepEqual(names, [NAMES, 'gateway.policy.turns.v3.db.names'])
  }))

test('a snapshot that was put back beside names of a later version is not used', () =>
  inGatewayFolder(1, async (folder) => {
    await foldGateway(log, folder, next(1))
    await inGatewayFolder(1, async (kept) => {
      for (const topic of ['turns', 'weights'])
        cpSync(join(kept, `gateway.policy.${topic}.db`), join(folder, `gateway.policy.${topic}.db`))
    })
    const back = await open(folder)
    assert.match(back.lines.join('\n'), /the table of names beside it is of version 3/)
    assert.deepEqual(stateOf(back), stateOf(await inGatewayFolder(null, open)))
  }))

test('a snapshot of a later version beside names of an earlier one that were put back is not used', () =>
  inGatewayFolder(1, async (folder) => {
    await foldGateway(log, folder, next(1))
    rmSync(join(folder, NAMES), { recursive: true })
    await inGatewayFolder(1, async (kept) => cpSync(join(kept, NAMES), join(folder, NAMES), { recursive: true }))
    const back = await foldGateway(log, folder, next(1))
    assert.match(back.lines.join('\n'), /the table of names beside it is another one/)
    const truth = await inGatewayFolder(null, (empty) => foldGateway(log, empty))
    assert.deepEqual(stateOf(back), stateOf(truth))
  }))

test('a snapshot of a later version is not used, and neither are its names', () =>
  inGatewayFolder(1, async (folder) => {
    await foldGateway(log, folder, next(1))
    const back = await open(folder)
    assert.match(back.lines.join('\n'), /another build wrote it/)
    assert.deepEqual(stateOf(back), stateOf(await inGatewayFolder(null, open)))
    // Both are kept: the later build goes on from its own, and so does this one.
    assert.equal((await foldGateway(log, folder, next(1))).read, 0)
    assert.deepEqual([(await open(folder)).read, (await open(folder)).lines], [0, []])
  }))
