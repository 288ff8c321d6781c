/** The table of names with a real LevelDB: its limit of bytes, kills while it is written, and a store that fails. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { encodeEvent, schemaTexts, type TurnCaptured } from '@instar/events'
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { liveGateway } from '../../../../test/snapshots/gateway.ts'
import { POLICY } from '../../../../test/kit/histories.ts'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { seeded } from '../../../../test/kit/random.ts'
import { answerName, noNames, promptName, type HeldNames } from './core/held-names.ts'
import { nameFor } from './core/names.ts'
import { levelFolder, openLevelRows } from './level-rows.ts'
import type { NameRows } from './name-rows.ts'
import { NameTable, type NameTableOptions } from './name-table.ts'
import { openSnapshot } from './snapshot.ts'

const folderOf = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-names-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const DAYS = { ms: 7 * 86_400_000, bytes: 1e9 }
const level: NameTableOptions['open'] = (path) => openLevelRows(path, assert.fail)
const kept = (): Map<string, HeldNames> => new Map()
const session = (i: number): string => i.toString(16).padStart(32, '0')

test('at the limit of bytes the oldest names expire, the others are found, and the folder stays below it', async (t) => {
  const folder = folderOf(t)
  const bytes = 2 * 2 ** 20
  const table = new NameTable({ limits: { ...DAYS, bytes }, now: () => T0, open: level }, kept())
  await table.open(join(folder, 'snapshot.db'), true)
  const count = 100_000
  for (let i = 0; i < count; i += 1) {
    table.add([`name ${i}`], T0 + i, session(i), 'first')
    if (i % 5_000 === 4_999) await table.write()
  }
  const { held, bytes: counted, expired } = table.figures()
  assert.equal(held + expired, count)
  assert.ok(counted <= bytes && counted > (bytes * 7) / 8 - 100, `${counted}`)
  for (const i of [count - held, count - 1]) assert.deepEqual(await table.find([`name ${i}`]), [session(i)])
  for (const i of [0, count - held - 1]) assert.deepEqual(await table.find([`name ${i}`]), [])
  assert.deepEqual(table.figures().reads, { found: 2, none: 2, failed: 0 })
  await table.close()
  const names = levelFolder(join(folder, 'snapshot.db'))
  const size = readdirSync(names).reduce((sum, file) => sum + statSync(join(names, file)).size, 0)
  assert.ok(size <= bytes, `${size}`)
})

test('of a name that many sessions have the latest 32 are found, and two names of a session find it once', async (t) => {
  const table = new NameTable({ limits: DAYS, now: () => T0, open: level }, kept())
  await table.open(join(folderOf(t), 'snapshot.db'), true)
  t.after(() => table.close())
  for (let i = 0; i < 100; i += 1) {
    table.add(['yes', `own ${i}`], T0 + i, session(i), 'first')
    if (i === 90) await table.write()
  }
  const latest = Array.from({ length: 32 }, (_, i) => session(68 + i))
  assert.deepEqual(await table.find(['yes']), latest)
  await table.write()
  assert.deepEqual(await table.find(['yes', 'own 99']), latest)
  // The older session that has both names comes last, and one of the latest 32 gives way.
  assert.deepEqual(await table.find(['yes', 'own 7']), [...latest.slice(1), session(7)])
  assert.deepEqual(await table.find(['own 1', 'own 3', 'other']), [session(1), session(3)])
})

test('a store that does not answer in time finds nothing, and one that fails is not used any more', async () => {
  const never = Promise.withResolvers<Uint8Array[]>().promise
  const rows: NameRows = {
    put: async () => undefined,
    lastUnder: () => never,
    remove: async () => undefined,
    empty: async () => undefined,
    mark: async () => null,
    close: async () => undefined,
  }
  const lines: string[] = []
  const marks: string[] = []
  const options = { limits: DAYS, now: () => T0, readMs: 1, logLine: (line: string) => void lines.push(line) }
  const late = new NameTable({ ...options, open: async () => rows }, kept())
  await late.open('a', true)
  late.add(['a'], T0, 's', 'first')
  await late.write()
  assert.deepEqual(await late.find(['a']), [])
  assert.deepEqual([late.figures().reads.failed, late.figures().held, lines], [1, 1, []])

  const full = {
    ...rows,
    put: async (_: unknown, mark: string) => (marks.push(mark), Promise.reject(new Error('disk full'))),
  }
  const state = kept()
  const failing = new NameTable({ ...options, open: async () => full }, state)
  await failing.open('a', true)
  failing.add(['a'], T0, 's', 'first')
  await failing.write()
  const written = new Map(state)
  failing.add(['b'], T0, 's', 'second')
  assert.deepEqual(await failing.find(['b']), [])
  assert.equal(failing.figures().held, 0)
  assert.deepEqual(lines, ['names of answers are no longer written: disk full; the next start reads the log again'])
  // The state in the snapshot is ahead of the mark: the next start does not take the table.
  const another = 'the table of names beside it is another one'
  assert.equal(await new NameTable({ ...options, open: async () => rows }, written).open('a', false), another)
  const lacks = await new NameTable({ ...options, open: async () => rows }, state).open('a', false)
  assert.equal(lacks, 'the table of names beside it lacks some')
  const same = { ...rows, mark: async () => 'first 1' }
  assert.equal(await new NameTable({ ...options, open: async () => same }, written).open('a', false), null)
  const other = { ...rows, mark: async () => 'another 9' }
  assert.equal(await new NameTable({ ...options, open: async () => other }, written).open('a', false), another)
  assert.equal(
    await new NameTable({ ...options, open: async () => rows }, new Map([['held', noNames()]])).open('a', false),
    null,
  )
})

test('a gateway that is killed repeatedly while it writes names has them all afterwards', async (t) => {
  const folder = folderOf(t)
  const [place, snapshots] = [join(folder, 'log'), join(folder, 'snapshots')]
  const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
  t.after(() => log.close())
  const turns = Array.from({ length: 2_000 }, (_, i): TurnCaptured =>
    turn({ session: session(i >> 1), name: `n${i}`, says: `Answer ${i}.`, at: T0 + i }),
  )
  for (let i = 0; i < turns.length; i += 500)
    await log.append(
      turns.slice(i, i + 500).map((event) => {
        const { id: _, ...record } = encodeEvent(event)
        return record
      }),
    )
  const random = seeded(16)
  const program = fileURLToPath(new URL('../../../../test/snapshots/processes/names.ts', import.meta.url))
  let killed = 0
  for (let i = 0; i < 5; i += 1) {
    const child = spawn(process.execPath, [program, place, snapshots], { stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    let left = 1 + random.below(8)
    for await (const line of createInterface({ input: child.stdout })) {
      left -= 1
      if (child.killed || (line !== 'through' && left > 0)) continue
      if (line !== 'through') killed += 1
      child.kill('SIGKILL')
    }
    await exited
  }
  assert.ok(killed >= 4, `${killed}`)
  const lines: string[] = []
  const last = openSnapshot(
    openSnapshots(snapshots, { records: 25, ms: Infinity, logLine: (line) => void lines.push(line) }),
    POLICY,
    { sessions: 5, turns: 20 },
    { limits: { ms: 1e12, bytes: 1e9 }, now: () => T0, open: level },
  )
  await liveGateway(
    log,
    null,
    { sessions: 5, turns: 20 },
    {},
    async ({ snapshot }) => {
      assert.equal(snapshot, last)
      for (const event of turns) {
        const names = [answerName(nameFor(null, event.answer.loose)), promptName(nameFor(null, event.digest))]
        for (const name of names) assert.deepEqual(await last.names!.find([name]), [event.session], name)
      }
    },
    last,
  )
  assert.deepEqual(lines, [])
  assert.equal(last.names!.figures().reads.found, 2 * turns.length)
})

for (const [how, harm] of [
  ['shortened', (file: string): void => truncateSync(file, statSync(file).size >> 1)],
  [
    'overwritten in their middle',
    (file: string): void => {
      const bytes = readFileSync(file)
      writeFileSync(file, bytes.fill(0xa5, bytes.length >> 2, bytes.length >> 1))
    },
  ],
] as const)
  test(`processes whose tables of names are ${how} start, and make them again from the log`, async (t) => {
    const folder = folderOf(t)
    const [place, snapshots] = [join(folder, 'log'), join(folder, 'snapshots')]
    const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
    t.after(() => log.close())
    const COUNT = 300
    await log.append(
      Array.from({ length: COUNT }, (_, i) => {
        const event = turn({ session: session(i), name: `n${i}`, says: `Answer ${i}.`, at: T0 + i })
        const { id: _id, ...record } = encodeEvent(event)
        return record
      }),
    )
    const program = fileURLToPath(new URL('../../../../test/snapshots/processes/names.ts', import.meta.url))
    /** What it prints beside `saved`, until it has read everything; it is killed then. */
    const life = async (): Promise<string[]> => {
      const child = spawn(process.execPath, [program, place, snapshots, String(COUNT)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const exited = once(child, 'exit')
      const lines: string[] = []
      for await (const line of createInterface({ input: child.stdout })) {
        if (line !== 'saved') lines.push(line)
        if (line === 'through') child.kill('SIGKILL')
      }
      await exited
      return lines
    }
    const whole = [`found ${COUNT}`, 'through']
    assert.deepEqual(await life(), whole)
    // LevelDB writes its tables when it opens.
    assert.deepEqual(await life(), whole)
    const names = levelFolder(join(snapshots, `gateway.${POLICY}.turns.db`))
    const tables = readdirSync(names).filter((file) => file.endsWith('.ldb'))
    assert.ok(tables.length > 0)
    for (const file of tables) harm(join(names, file))
    const lines = await life()
    assert.equal(lines.at(-1), 'through')
    assert.ok(
      lines.some((line) => line.includes(names)),
      lines.join('\n'),
    )
    // Damage that only a read finds costs one more start.
    assert.deepEqual((await life()).slice(-2), whole)
    assert.deepEqual(await life(), whole)
  })
