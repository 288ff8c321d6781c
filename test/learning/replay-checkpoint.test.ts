/** `replay` from a checkpoint of the audit: the branch of one from the log's start, and no record before it is folded. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { decodeRecord, schemaTexts, type BatchSealed, type UpdateComputed } from '@instar/events'
import {
  Archive,
  checkpointsOn,
  openFolderStore,
  openMemoryLog,
  withArchive,
  type Append,
  type EventLog,
} from '@instar/log'
import { replay, type AuditStart, type ReplayOptions, type ReplayReport } from '@instar/trainer'
import { checkpointAudit } from '../kit/audit-checkpoint.ts'
import { archiveTo, cutBelow } from '../kit/event-log/cut-log.ts'
import { POLICY } from '../kit/histories.ts'
import { longHistory } from '../kit/long-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-replay-checkpoint-'))
  folders.push(path)
  return path
}

const TURNS = 320
const SPLIT = 0.6

const checkpoint = (log: EventLog, files: string) => checkpointAudit(log, POLICY, files)

/** A line with versions and a checkpoint after `SPLIT` of its records. */
const line = async (): Promise<{ log: EventLog; files: string }> => {
  const records: Append[] = [...longHistory({ turns: TURNS, updates: true })]
  const [log, files] = [openMemoryLog(), folder()]
  await log.append(records.slice(0, SPLIT * records.length))
  await checkpoint(log, files)
  await log.append(records.slice(SPLIT * records.length))
  return { log, files }
}

/** With the fingerprint of the history's updates, so that batches with recorded settings are compared bit for bit. */
const learner = async (log: EventLog): Promise<ScriptedLearner> => {
  for await (const records of log.read('updates', { key: POLICY }))
    for (const record of records) {
      const { event } = decodeRecord(record)
      if (event.type === 'UpdateComputed')
        return Object.assign(new ScriptedLearner(), { fingerprint: () => event.fingerprint })
    }
  throw new Error('the history has no update')
}

const replayed = async (
  log: EventLog,
  options: Partial<ReplayOptions> & { branch: string },
  start?: AuditStart,
): Promise<ReplayReport> =>
  replay(
    {
      log,
      learner: await learner(log),
      model: { ...SCRIPTED_MODEL, name: 'm', sha256: 'b', contextLength: 1000 },
      now: () => 7,
      signal: new AbortController().signal,
      ...(start ? { start } : {}),
    },
    POLICY,
    { from: null, until: null, set: {}, judge: null, ...options },
  )

/** What a branch has on the log, without what names the branch and its own records. */
const branchOf = async (log: EventLog, branch: string): Promise<unknown[]> => {
  const found: unknown[] = []
  for await (const records of log.read('updates', { key: `${POLICY}~${branch}` }))
    for (const record of records) {
      const event = decodeRecord(record).event as BatchSealed | UpdateComputed
      const { prev: _, policy: __, ...rest } = event
      found.push('batch' in rest ? { ...rest, batch: '' } : rest)
    }
  return found
}

const CHANGED = { batchSize: '10', lr: '0.5' }
const RANGES: readonly Partial<ReplayOptions>[] = [
  // Recorded settings: the scripted engine computes other adapters than the recorded ones from batch 1 on.
  {},
  { set: CHANGED },
  { set: CHANGED, until: { version: 4 } },
  { set: CHANGED, until: { version: 17 } },
]

test('a branch from a checkpoint has the batches and adapters of one from the start, with the recorded settings and with others', async () => {
  const { log, files } = await line()
  for (const [i, range] of RANGES.entries()) {
    const whole = await replayed(log, { branch: `whole-${i}`, ...range })
    const read: string[] = []
    const readAll = log.read.bind(log)
    log.read = (topic, options = {}) => {
      const { from } = options
      if (options.key === undefined && topic !== 'upgrades' && topic !== 'blobs')
        read.push(`${topic} ${from && ('time' in from || from[topic]) ? 'from' : 'whole'}`)
      return readAll(topic, options)
    }
    const known = await replayed(log, { branch: `known-${i}`, ...range }, { folder: files })
    log.read = readAll
    assert.deepEqual(
      read.filter((one) => one.endsWith('whole')),
      [],
    )
    assert.equal(whole.trusted, null)
    assert.equal(known.trusted?.record, (await checkpointsOn(log)).at(-1)!.id)
    assert.ok(known.trusted.batches > 5 && known.trusted.batches < 15, JSON.stringify(known.trusted))
    assert.deepEqual(
      [known.adapter, known.batches, known.versions, known.equal, known.first],
      [whole.adapter, whole.batches, whole.versions, whole.equal, whole.first],
    )
    assert.ok(whole.batches >= 6, `${whole.batches}`)
    assert.deepEqual(await branchOf(log, `known-${i}`), await branchOf(log, `whole-${i}`))
  }
})

test('of a log that was cut, a branch from its first record has the batches and adapters of before, read from the archive', async () => {
  const [{ log }, { log: cut }, archive] = [await line(), await line(), folder()]
  const manifest = await archiveTo(cut, archive, { schemas: schemaTexts() })
  const starts = await cutBelow(cut, { turns: 280, scores: 250 }, { archive, manifest })
  assert.ok(Object.values({ ...starts.turns, ...starts.scores }).some((start) => start > 200))
  const store = openFolderStore(archive, false)
  const archived = withArchive(cut, { address: archive, open: () => Archive.open(store), close: () => store.close() })
  for (const [i, range] of RANGES.entries()) {
    const before = await replayed(log, { branch: `b-${i}`, ...range })
    const now = await replayed(archived, { branch: `b-${i}`, ...range })
    assert.deepEqual(now, before)
    assert.deepEqual(await branchOf(archived, `b-${i}`), await branchOf(log, `b-${i}`))
  }
  await assert.rejects(replayed(cut, { branch: 'without' }), { code: 'log_cut' })
})

test('a judge, whose order of turns no checkpoint has, is refused before anything is appended', async () => {
  const { log, files } = await line()
  const ends = JSON.stringify(await log.ends(['weights', 'scores']))
  await assert.rejects(replayed(log, { branch: 'judged', judge: 'reactions' }, { folder: files }), {
    code: 'bad_request',
    message: /order of the log/,
  })
  assert.equal(JSON.stringify(await log.ends(['weights', 'scores'])), ends)
})

test('a checkpoint of other records is refused with the place where the log differs, and leaves no branch', async () => {
  const [{ log, files }, other] = [await line(), openMemoryLog()]
  const stored: Append[] = []
  for await (const records of log.read('upgrades')) stored.push(...records)
  await other.append([...longHistory({ turns: TURNS, updates: true })].slice(3))
  await other.append(stored)
  const ends = JSON.stringify(await other.ends(['weights']))
  await assert.rejects(replayed(other, { branch: 'wrong', set: CHANGED }, { folder: files }), {
    code: 'no_checkpoint',
    message: /no checkpoint of audit\.policy can be used: .*\w+ \d+@\d+ is a different record on this log$/,
  })
  assert.equal(JSON.stringify(await other.ends(['weights'])), ends)
  await assert.rejects(replayed(log, { branch: 'gone', set: CHANGED }, { folder: folder() }), {
    code: 'no_checkpoint',
    message: /is missing/,
  })
})
