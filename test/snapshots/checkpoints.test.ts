/** Checkpoints: written and verified from the log alone; a process without a snapshot starts from one. */
import { decodeRecord, encodeEvent, schemaTexts, type Event, type StateCheckpointed } from '@instar/events'
import {
  checkpointsOn,
  followEvents,
  openEmbeddedLog,
  openMemoryLog,
  openSnapshots,
  stateName,
  verifyCheckpoints,
  writeCheckpoint,
  type EventLog,
  type StoredFold,
} from '@instar/log'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { auditFold, trainerFold } from '@instar/trainer'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { packState, unpackState } from '../../packages/log/src/checkpoints/files.ts'
import { POLICY, randomHistory } from '../kit/histories.ts'
import { longHistory } from '../kit/long-history.ts'
import { scored, T0, turn } from '../kit/projected-history.ts'
import { seeded, type Random } from '../kit/random.ts'
import { gatewayFold } from '../../services/gateway/src/session/stored-fold.ts'
import { goldenLog } from './golden-states.ts'

const FOLDS: readonly StoredFold[] = [trainerFold, publisherFold, scorerFold, auditFold, gatewayFold]
const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-checkpoints-'))
  folders.push(path)
  return path
}
const QUIET = { onProgress: () => undefined }
const NEVER = new AbortController().signal
const write = (log: EventLog, fold: StoredFold, files: string, at = 1) =>
  writeCheckpoint(log, fold, { policy: POLICY, folder: files, now: () => at, observer: QUIET, signal: NEVER })
const verify = (log: EventLog, files: string) => verifyCheckpoints(log, FOLDS, { folder: files, observer: QUIET })

const logOf = async (events: readonly Event[]): Promise<EventLog> => {
  const log = openMemoryLog()
  await log.append(events.map((event) => encodeEvent(event)))
  return log
}

/** The digest of a service's state that has read the log to its end, in the order of `followEvents` or a random one. */
const digestOf = async (
  log: EventLog,
  fold: StoredFold,
  place: string,
  { random, checkpoints, lines }: { random?: Random; checkpoints?: string; lines?: string[] } = {},
): Promise<{ digest: string; rows: number; read: number }> => {
  const snapshot = openSnapshots(place, {
    records: 50,
    ms: Infinity,
    cacheWeight: 20,
    logLine: (line) => void lines?.push(line),
    ...(checkpoints ? { checkpoints } : {}),
  }).of(stateName(fold, POLICY), fold.version)
  const evolve = fold.on(snapshot, POLICY)
  const from = await snapshot.open(log)
  let read = 0
  if (random) {
    const queues = new Map<string, ReturnType<typeof decodeRecord>[]>()
    for (const topic of fold.topics)
      for await (const records of log.read(topic, { from }))
        for (const record of records) {
          const at = `${topic} ${record.partition}`
          queues.set(at, [...(queues.get(at) ?? []), decodeRecord(record)])
        }
    while (queues.size > 0) {
      const at = random.pick([...queues.keys()])
      for (const logged of queues.get(at)!.splice(0, 1 + random.below(20))) {
        evolve(logged)
        read += 1
        await snapshot.after(logged)
      }
      if (queues.get(at)!.length === 0) queues.delete(at)
    }
  } else {
    const follower = await followEvents(log, {
      name: fold.service,
      topics: fold.topics,
      from,
      onEvent(logged) {
        evolve(logged)
        read += 1
        return snapshot.after(logged)
      },
    })
    await follower.caughtUp()
    await follower.stop()
  }
  const found = await snapshot.digest()
  await snapshot.close()
  return { ...found, read }
}

for (const fold of FOLDS) {
  test(`${fold.service}: the digest does not depend on how topics are interleaved, nor on where the fold was interrupted`, async () => {
    for (const seed of [1, 2, 3]) {
      const random = seeded(seed)
      const log = seed === 1 ? await goldenLog() : await logOf(randomHistory(random, 1200).events)
      const first = await digestOf(log, fold, folder())
      assert.ok(first.rows > 20, `${first.rows} rows`)
      for (let i = 0; i < 4; i += 1) {
        const again = await digestOf(log, fold, folder(), { random })
        assert.deepEqual([again.digest, again.rows], [first.digest, first.rows], `seed ${seed}`)
      }
    }
  })

  test(`${fold.service}: a process with an empty folder starts from the checkpoint and gets the state of the whole log`, async () => {
    const { events } = randomHistory(seeded(11), 4000)
    const log = await logOf(events.slice(0, 3000))
    const files = folder()
    const written = await write(log, fold, files)
    assert.equal(written?.written, true)
    assert.equal((await write(log, fold, files))?.written, false)
    await log.append(events.slice(3000).map((event) => encodeEvent(event)))
    const whole = await digestOf(log, fold, folder())
    const lines: string[] = []
    const place = folder()
    const started = await digestOf(log, fold, place, { checkpoints: files, lines })
    assert.deepEqual([started.digest, started.rows], [whole.digest, whole.rows])
    assert.ok(started.read < 0.4 * whole.read, `${started.read} of ${whole.read} records read`)
    assert.match(lines.join('\n'), /starts from the checkpoint of 1970-01-01T00:00:00\.001Z/)
    assert.deepEqual(
      readdirSync(place).filter((name) => name.endsWith('.checkpoint')),
      [],
    )
    // Its own snapshot is newer, and is used the next time.
    assert.equal((await digestOf(log, fold, place, { checkpoints: files, lines })).read, 0)
    assert.equal(lines.length, 1)
    assert.deepEqual((await verify(log, files)).ok, true)
  })
}

test('a checkpoint of another version, a damaged file, or another log: the next one, or the start of the log', async () => {
  const { events } = randomHistory(seeded(12), 1500)
  const log = await logOf(events.slice(0, 900))
  const files = folder()
  const older = await write(log, trainerFold, files, 1)
  await log.append(events.slice(900).map((event) => encodeEvent(event)))
  const newer = await write(log, trainerFold, files, 2)
  const whole = await digestOf(log, trainerFold, folder())
  const start = async (fold = trainerFold, on = log) => {
    const lines: string[] = []
    const { digest, read } = await digestOf(on, fold, folder(), { checkpoints: files, lines })
    return { same: digest === whole.digest, read, lines }
  }
  const fresh = await start()
  assert.deepEqual([fresh.same, fresh.read], [true, 0])
  const path = join(files, `trainer.${POLICY}.${newer!.file}.state.zst`)
  const bytes = readFileSync(path)
  bytes[bytes.length >> 1]! ^= 4
  writeFileSync(path, bytes)
  const second = await start()
  assert.equal(second.same, true)
  assert.ok(second.read > 0 && second.read < 0.6 * whole.read, `${second.read}`)
  assert.match(second.lines.join('\n'), /00\.002Z is not used: .* does not match its sha256\n.*starts from .*00\.001Z/)
  const { number } = trainerFold.version
  const otherVersion = await start({ ...trainerFold, version: { number: number + 1, migrations: {} } })
  assert.deepEqual([otherVersion.same, otherVersion.read, otherVersion.lines], [true, whole.read, []])
  const migrated = await start({
    ...trainerFold,
    version: { number: number + 1, migrations: { [number]: () => undefined } },
  })
  assert.equal(migrated.read, second.read)
  // A log with other records at the checkpoint's positions.
  const other = await logOf(randomHistory(seeded(13), 900).events)
  await other.append((await checkpointsOn(log)).map(({ event }) => encodeEvent(event)))
  const elsewhere = await start(trainerFold, other)
  assert.ok(elsewhere.read > 0)
  assert.match(elsewhere.lines.join('\n'), /is a different record on this log|is not a position/)
  assert.ok(older)
})

test('a checkpoint with a value that cannot be read is passed over, not started from again and again', async () => {
  const log = await logOf(randomHistory(seeded(18), 900).events)
  const files = folder()
  const state = (await write(log, trainerFold, files, 1))!
  const whole = await digestOf(log, trainerFold, folder())
  const path = join(folder(), 'state.db')
  assert.equal(await unpackState(files, state, path), null)
  const db = new DatabaseSync(path)
  const { changes } = db
    .prepare("UPDATE entries SET value = CAST('another' AS BLOB) WHERE rowid = (SELECT max(rowid) FROM entries)")
    .run()
  db.close()
  assert.equal(changes, 1)
  const damaged = await packState(path, files, state.name)
  const { written: _, ...facts } = state
  await log.append([encodeEvent({ ...facts, ...damaged, type: 'StateCheckpointed', who: 'checkpoint', at: 2 })])
  const lines: string[] = []
  const started = await digestOf(log, trainerFold, folder(), { checkpoints: files, lines })
  assert.deepEqual([started.digest, started.read], [whole.digest, 0])
  assert.match(lines.join('\n'), /does not match its checksum.*\n.*starts from .*00\.001Z/)
})

test('verify finds and names each false checkpoint, and passes the true ones', async () => {
  const { events } = randomHistory(seeded(14), 2400)
  const log = await logOf(events.slice(0, 1200))
  const files = folder()
  for (const fold of FOLDS) await write(log, fold, files, 1)
  await log.append(events.slice(1200).map((event) => encodeEvent(event)))
  for (const fold of FOLDS) await write(log, fold, files, 2)
  const whole = await verify(log, files)
  assert.deepEqual(
    whole.checkpoints.map(({ name, ok, file, what }) => [name, ok, file, what]),
    FOLDS.flatMap((fold) => [1, 2].map(() => [stateName(fold, POLICY), true, 'equal', null])),
  )

  const [first, last] = (await checkpointsOn(log, `trainer.${POLICY}`)).map(({ event }) => event)
  const lie = async (change: Partial<StateCheckpointed>) => {
    const copy = openMemoryLog()
    for (const topic of ['turns', 'scores', 'weights', 'updates'] as const)
      for await (const records of log.read(topic)) await copy.append(records)
    await copy.append([encodeEvent({ ...last!, ...change })])
    const { ok, first: found } = await verify(copy, files)
    assert.equal(ok, false)
    return `${found!.name} ${found!.file}: ${found!.what}`
  }
  const digest = `${last!.digest.startsWith('0') ? '1' : '0'}${last!.digest.slice(1)}`
  assert.match(await lie({ digest }), /^trainer\.policy equal: the log's fold has \d+ rows and the digest [0-9a-f]{64}/)
  assert.match(await lie({ rows: last!.rows + 1 }), /^trainer\.policy equal: the log's fold has/)
  assert.match(
    await lie({ positions: first!.positions }),
    /^trainer\.policy differs: the log's fold has .*the first row of its file that differs/,
  )
  const moved = last!.positions.map((one) => (one.topic === 'turns' ? { ...one, next: one.next - 1 } : one))
  assert.match(
    await lie({ positions: moved }),
    /^trainer\.policy not_read: its position turns \d+@\d+ is (another|no) record/,
  )
  assert.match(
    await lie({ positions: [{ topic: 'turns', partition: 99, next: 1, record: 'r' }] }),
    /not_read: its position turns 99@0 is none of this log/,
  )
  assert.match(
    await lie({ file: first!.file, bytes: first!.bytes }),
    /^trainer\.policy differs: the first row of its file that differs from the log's fold: /,
  )
  const path = join(files, `trainer.${POLICY}.${last!.file}.state.zst`)
  const bytes = readFileSync(path)
  for (const at of [0, 100, bytes.length - 1]) {
    const flipped = Buffer.from(bytes)
    flipped[at]! ^= 1
    writeFileSync(path, flipped)
    const { first: found } = await verify(log, files)
    assert.match(
      `${found?.name} ${found?.record} ${found?.what}`,
      /^trainer\.policy [0-9a-f]{64} .*does not match its sha256$/,
    )
  }
  rmSync(path)
  const without = await verify(log, files)
  assert.deepEqual([without.ok, without.checkpoints[1]!.file], [true, 'missing'])
  const unknown = await verifyCheckpoints(log, [{ ...trainerFold, version: { number: 9, migrations: {} } }], {
    folder: files,
    observer: QUIET,
  })
  assert.deepEqual(
    [unknown.ok, unknown.first, new Set(unknown.checkpoints.map(({ ok }) => ok))],
    [true, null, new Set([null])],
  )
})

test('a checkpoint written without the files of those before it is a true one, however many turns were praised', async () => {
  const log = openMemoryLog()
  // Praised turns that no batch takes, and then more than a publisher keeps of those that batches take.
  for (let i = 0; i < 200; i += 1) {
    const one = turn({ session: `left${i}`, name: 'n', says: `Answer ${i}.`, at: T0 + i })
    await log.append([one, scored(one, 1)].map((event) => encodeEvent(event)))
  }
  const trained = [...longHistory({ turns: 1344 })].map(({ id: _, ...record }) => record)
  await log.append(trained.slice(0, trained.length / 2))
  const [lost, files] = [folder(), folder()]
  for (const fold of FOLDS) await write(log, fold, lost, 1)
  await log.append(trained.slice(trained.length / 2))
  for (const fold of FOLDS) await write(log, fold, files, 2)
  const { checkpoints } = await verify(log, files)
  assert.deepEqual(
    checkpoints.map(({ name, ok, file, what }) => [name, ok, file, what]),
    FOLDS.flatMap((fold) => (['missing', 'equal'] as const).map((file) => [stateName(fold, POLICY), true, file, null])),
  )
})

test('no checkpoint is written before all readers of the log support the record, nor of an empty log', async () => {
  const shared = openMemoryLog()
  Object.defineProperty(shared, 'sole', { value: false })
  await shared.append(randomHistory(seeded(15), 50).events.map((event) => encodeEvent(event)))
  await assert.rejects(write(shared, trainerFold, folder()), { code: 'not_announced' })
  assert.equal(await write(await logOf([]), trainerFold, folder()), null)
})

test(
  'a checkpoint that is killed at any moment leaves no false one, and the next run completes',
  { timeout: 120_000 },
  async (t) => {
    const [place, files] = [folder(), join(folder(), 'files')]
    const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
    await log.append(randomHistory(seeded(16), 3000).events.map((event) => encodeEvent(event)))
    await log.close()
    const program = fileURLToPath(new URL('processes/checkpoint.ts', import.meta.url))
    const random = seeded(17)
    let killed = 0
    for (let i = 0; i < 8; i += 1) {
      const child = spawn(process.execPath, [program, place, files], { stdio: ['ignore', 'pipe', 'inherit'] })
      const exited = once(child, 'exit')
      await once(child.stdout, 'data')
      // From the first progress on: in the fold, while the file is written, or after its record.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1 + random.below(400))
      child.kill('SIGKILL')
      if ((await exited)[1] === 'SIGKILL') killed += 1
      const read = await openEmbeddedLog({ folder: place, readOnly: true })
      const { ok, checkpoints } = await verify(read, files)
      assert.ok(ok && checkpoints.every(({ file }) => file === 'equal'), JSON.stringify(checkpoints))
      await read.close()
    }
    t.diagnostic(`${killed} killed before the end`)
    const child = spawn(process.execPath, [program, place, files], { stdio: ['ignore', 'ignore', 'inherit'] })
    assert.deepEqual(await once(child, 'exit'), [0, null])
    const read = await openEmbeddedLog({ folder: place, readOnly: true })
    const { ok, checkpoints } = await verify(read, files)
    assert.ok(ok && checkpoints.length > 0 && checkpoints.at(-1)!.file === 'equal')
    assert.deepEqual(
      readdirSync(files).filter((name) => name.endsWith('.part')),
      [],
    )
    const [whole, started] = [
      await digestOf(read, trainerFold, folder()),
      await digestOf(read, trainerFold, folder(), { checkpoints: files }),
    ]
    assert.deepEqual([started.digest, started.read], [whole.digest, 0])
    await read.close()
  },
)
