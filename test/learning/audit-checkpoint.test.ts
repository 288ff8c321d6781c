/** `verify` from a checkpoint: the same verdicts as from the log's start for what is behind it, and nothing before it is read. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { decodeRecord, encodeEvent, type Event } from '@instar/events'
import type { Model } from '@instar/engine/port'
import { checkpointsOn, openMemoryLog, type Append, type EventLog } from '@instar/log'
import { verify, type AuditStart, type VerifyReport } from '@instar/trainer'
import { checkpointAudit } from '../kit/audit-checkpoint.ts'
import { POLICY, randomHistory } from '../kit/histories.ts'
import { longHistory } from '../kit/long-history.ts'
import { seeded } from '../kit/random.ts'

const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-audit-checkpoint-'))
  folders.push(path)
  return path
}

const checkpoint = (log: EventLog, files: string) => checkpointAudit(log, POLICY, files)
const report = (log: EventLog, start?: AuditStart, version: number | null = null): Promise<VerifyReport> =>
  verify({ log, learner: null, model: {} as Model, ...(start ? { start } : {}) }, POLICY, version)

/** The rows of a verification from the start that one from the checkpoint must have, too. `late`: of batches sealed before it. */
const behind = (
  whole: VerifyReport,
  { batches, trusted }: VerifyReport,
): { rows: VerifyReport['batches']; late: number } => {
  const has = (row: VerifyReport['batches'][number]): boolean => batches.some((one) => isDeepStrictEqual(one, row))
  const promoted = ({ version }: VerifyReport['batches'][number]): boolean =>
    version !== null && version <= trusted!.versions
  const before = whole.batches.slice(0, trusted!.batches).filter(has)
  return {
    rows: [...before, ...whole.batches.slice(trusted!.batches).filter((row) => !promoted(row))],
    late: before.length,
  }
}

test('verdicts behind a checkpoint are those of a fold from zero, on random histories with late, stale and malformed records', async () => {
  let [rows, bad, differing, lates] = [0, 0, 0, 0]
  for (let seed = 60; seed <= 100; seed += 1) {
    const random = seeded(seed)
    const records = randomHistory(random, 900).events.map((event) => encodeEvent(event))
    const at = 100 + random.below(700)
    const log = openMemoryLog()
    await log.append(records.slice(0, at))
    const files = folder()
    await checkpoint(log, files)
    await log.append(records.slice(at))
    const [whole, from] = [await report(log), await report(log, { folder: files })]
    assert.equal(whole.trusted, null)
    assert.equal(from.trusted?.record, (await checkpointsOn(log)).at(-1)!.id)
    assert.ok(from.trusted.turns > 10, JSON.stringify(from.trusted))
    const expected = behind(whole, from)
    assert.deepEqual(from.batches, expected.rows, `seed ${seed}`)
    lates += expected.late
    rows += from.batches.length
    bad += from.batches.filter(({ ok }) => !ok).length
    const isBehind = from.batches.some(({ difference }) => difference?.record === whole.first?.record)
    if (isBehind) assert.deepEqual(from.first, whole.first)
    if (from.first) differing += 1
  }
  assert.ok(
    rows > 20 && bad > 5 && differing > 2 && lates > 0,
    `${rows} rows, ${bad} with differences, ${lates} late; ${differing} histories`,
  )
})

test('a batch that was sealed before the checkpoint is looked at for its update behind it, also where its record is repeated there', async () => {
  const records: Append[] = [...longHistory({ turns: 64, updates: true })]
  const sealed = records.flatMap(({ schema }, i) => (schema.startsWith('BatchSealed') ? [i] : []))[1]!
  const log = openMemoryLog()
  await log.append(records.slice(0, sealed + 1))
  const files = folder()
  await checkpoint(log, files)
  await log.append([records[sealed]!, ...records.slice(sealed + 1)])
  const from = await report(log, { folder: files })
  assert.deepEqual([from.ok, from.trusted?.batches, from.batches.map(({ batch }) => batch)], [true, 2, [2, 3, 4]])
})

const TURNS = 640
const SPLIT = 0.6

/** A good line, in which `change` may change records, and a checkpoint after `SPLIT` of it. */
const line = async (change: (event: Event) => Event = (event) => event): Promise<{ log: EventLog; files: string }> => {
  const good: Append[] = [...longHistory({ turns: TURNS, updates: true })]
  const changed = good.map((record): Append => {
    const { event } = decodeRecord({ ...record, partition: 0, offset: 0 })
    const other = change(event)
    return other === event ? record : encodeEvent(other)
  })
  const log = openMemoryLog()
  await log.append(changed.slice(0, SPLIT * changed.length))
  const files = folder()
  await checkpoint(log, files)
  await log.append(changed.slice(SPLIT * changed.length))
  return { log, files }
}

test('a forged update behind the checkpoint is found, one before it is not looked at, and no record before it is read', async () => {
  const { log, files } = await line()
  const read: string[] = []
  const readAll = log.read.bind(log)
  const whole = await report(log)
  log.read = (topic, options = {}) => {
    if (topic !== 'upgrades' && topic !== 'blobs')
      read.push(`${topic} ${options.from && !('time' in options.from) && options.from[topic] ? 'from' : 'whole'}`)
    return readAll(topic, options)
  }
  const from = await report(log, { folder: files })
  assert.deepEqual(read, ['turns from', 'scores from', 'weights from', 'updates from'])
  assert.deepEqual([whole.ok, from.ok, whole.batches.length], [true, true, TURNS / 16])
  assert.deepEqual(from.batches, behind(whole, from).rows)
  const { trusted } = from
  assert.ok(trusted && trusted.batches > 20 && trusted.batches < 28, JSON.stringify(trusted))
  assert.equal(from.batches.at(-1)!.version, TURNS / 16)

  const forged = (number: number) =>
    line((event) =>
      event.type === 'VersionPublished' && event.number === number ? { ...event, adapter: 'f'.repeat(64) } : event,
    )
  // The last version: a version that a batch has as its parent breaks the chain of records behind it.
  const last = await forged(TURNS / 16)
  const found = [await report(last.log), await report(last.log, { folder: last.files })]
  for (const one of found) assert.deepEqual([one.ok, one.first?.type], [false, 'VersionPublished'])
  assert.deepEqual(found[1]!.first, found[0]!.first)
})

test('a checkpoint is chosen by the beginning of its record’s id; a version before it, and a state that no file has, are refused', async () => {
  const { log, files } = await line()
  const first = (await checkpointsOn(log)).at(-1)!.id
  await checkpoint(log, files)
  const second = (await checkpointsOn(log)).at(-1)!.id
  assert.notEqual(first, second)
  const [older, newest] = [
    await report(log, { folder: files, record: first.slice(0, 8) }),
    await report(log, { folder: files }),
  ]
  assert.deepEqual([older.trusted?.record, newest.trusted?.record], [first, second])
  assert.deepEqual([newest.batches, newest.ok, newest.trusted?.batches], [[], true, TURNS / 16])
  assert.ok(older.batches.length > 10)
  const one = await report(log, { folder: files, record: first }, 40)
  assert.deepEqual(
    one.batches.map(({ version }) => version),
    [40],
  )
  await assert.rejects(report(log, { folder: files, record: first }, 3), { code: 'bad_request' })
  await assert.rejects(report(log, { folder: files, record: '00000000' }), { code: 'no_checkpoint' })
  await assert.rejects(report(log, { folder: folder() }), /no checkpoint of audit\.policy can be used: .* is missing/)
})
