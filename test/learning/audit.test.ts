/** The folds of `verify` and `replay`: the same as in memory, for a log of any length, with unreadable records. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { decodeRecord, encodeEvent, schemaTexts, updateLine, written, type Event } from '@instar/events'
import { openEmbeddedLog, openMemoryLog, type EventLog } from '@instar/log'
import type { Model } from '@instar/engine/port'
import { verify } from '@instar/trainer'
import { auditBatches } from '../../services/trainer/src/core/audit.ts'
import { evolveAudit, initialAudit, type AuditState } from '../../services/trainer/src/core/audit-state.ts'
import {
  turnsWithNextState,
  recordedBatches,
  scoredTurns,
  turnsInRange,
} from '../../services/trainer/src/core/replay.ts'
import { MAX_ITEM_BYTES } from '../../services/trainer/src/core/pending.ts'
import { readAudit } from '../../services/trainer/src/shell/audit.ts'
import { BATCH, BEGAN_AT, longHistory } from '../kit/long-history.ts'
import { captured } from '../kit/scored-history.ts'
import { seeded } from '../kit/random.ts'
import { POLICIES, POLICY, randomHistory } from '../kit/histories.ts'

const PLACE = { partition: 0, offset: 0 }
const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))

const seen = (state: AuditState): unknown => {
  const listed = Array.from({ length: state.turnOrder.length }, (_, i) => state.turnOrder.at(i)!)
  return {
    batches: [...auditBatches(state)].map(({ id, difference }) => [id, difference]),
    recorded: [...recordedBatches(state, null, null)].map(({ id, status }) => [id, status]),
    joined: [...turnsWithNextState(state)],
    scored: POLICIES.map((policy) =>
      [...scoredTurns(state, policy)].map(({ turn, score, reward }) => [turn, score, reward]),
    ),
    listed,
    spent: listed.filter(turnsInRange(state, null, { time: 1e12 })),
    moves: Array.from({ length: state.moves.length }, (_, i) => state.moves.at(i)),
    baselines: ['ann', 'bob', ''].map((subject) => updateLine(state.updates, POLICY).baselines.get(subject)),
  }
}

test('an audit in a file gives the same as one in memory, on random histories', async () => {
  let [turns, batches] = [0, 0]
  for (let seed = 1; seed <= 12; seed += 1) {
    const log = openMemoryLog()
    await log.append(randomHistory(seeded(seed), 900).events.map((event) => encodeEvent(event)))
    const memory = initialAudit(POLICY)
    const audit = await readAudit(log, POLICY)
    assert.equal(audit.broken, null)
    for (const topic of ['turns', 'scores', 'weights', 'updates'] as const) {
      for await (const records of log.read(topic))
        for (const record of records) evolveAudit(memory, decodeRecord(record))
    }
    const stored = seen(audit.state)
    assert.deepEqual(stored, seen(memory), `seed ${seed}`)
    turns += memory.turnOrder.length
    batches += memory.batches.get(POLICY)!.length
    await audit.close()
  }
  assert.ok(turns > 1000 && batches > 50, `${turns} turns, ${batches} batches`)
})

test('no batch of a log in use lacks what it refers to, however late each broker answers for its topics', async () => {
  const events = [...longHistory({ turns: 12 * BATCH, updates: true })].map(({ id: _, ...record }) => record)
  for (const late of [['updates', 'weights'], ['updates'], ['weights'], ['scores'], ['turns'], []]) {
    const log = openMemoryLog()
    const [quarter, most] = [events.length / 4, (3 * events.length) / 4]
    let written = quarter
    await log.append(events.slice(0, written))
    const ends = log.ends.bind(log)
    /** Brokers are asked at once. Those of the topics in `late` answer when more has been written. */
    log.ends = async (topics) => {
      const before = await ends(topics.filter((topic) => !late.includes(topic)))
      const more = events.slice(written, Math.min(most, written + quarter))
      written += more.length
      await log.append(more)
      return { ...before, ...(await ends(topics.filter((topic) => late.includes(topic)))) }
    }
    const { ok, first, batches } = await verify({ log, learner: null, model: {} as Model }, POLICY, null)
    assert.deepEqual([ok, first], [true, null], `late: ${late.join()}`)
    assert.ok(batches.length > 1 && batches.length < 12, `${batches.length}`)
  }
})

test('a stopped verify throws `aborted` before the end of the log or of the batches and leaves no file', async () => {
  const log = openMemoryLog()
  await log.append(randomHistory(seeded(7), 900).events.map((event) => encodeEvent(event)))
  const before = process.env.TMPDIR
  const folder = (process.env.TMPDIR = mkdtempSync(join(tmpdir(), 'instar-stopped-')))
  folders.push(folder)
  try {
    const reading = new AbortController()
    let there: string[] = []
    const read = log.read.bind(log)
    log.read = (...[topic, options]: Parameters<EventLog['read']>) => {
      if (topic === 'scores') {
        there = readdirSync(folder)
        reading.abort('SIGINT')
      }
      return read(topic, options)
    }
    const ports = { learner: null, model: {} as Model }
    await assert.rejects(verify({ ...ports, log, signal: reading.signal }, POLICY, null), { code: 'aborted' })
    log.read = read
    assert.equal(there.length, 1)
    const working = new AbortController()
    const done: number[] = []
    const onProgress = (count: number, total: number): void => {
      assert.ok(total > 1)
      done.push(count)
      working.abort('SIGINT')
    }
    await assert.rejects(verify({ ...ports, log, signal: working.signal, onProgress }, POLICY, null), {
      code: 'aborted',
    })
    assert.deepEqual(done, [1])
    assert.deepEqual(readdirSync(folder), [])
  } finally {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  }
})

test('malformed records of any topic are skipped and reported; reading stops at a record of a newer type', async () => {
  const log = openMemoryLog()
  const events = randomHistory(seeded(7), 300).events
  await log.append(events.map((event) => encodeEvent(event)))
  const clean = await readAudit(log, POLICY)
  const before = seen(clean.state)
  await clean.close()
  const poison = (
    ['turns TurnCaptured.v2', 'scores TurnScored.v1', 'updates BatchSealed.v1', 'weights VersionPublished.v1'] as const
  ).map((one) => {
    const [topic, schema] = one.split(' ') as ['turns', string]
    return { topic, key: POLICY, schema, payload: Buffer.from('nonsense'), timestamp: 1 }
  })
  for (let round = 0; round < 6; round += 1) await log.append(poison)
  const audit = await readAudit(log, POLICY)
  assert.equal(audit.broken, null)
  assert.deepEqual(seen(audit.state), before)
  assert.deepEqual([audit.unreadable.records, audit.unreadable.first.length], [24, 20])
  assert.deepEqual(
    [...new Set(audit.unreadable.first.map(({ topic, type }) => `${topic} ${type}`))],
    ['turns TurnCaptured.v2', 'scores TurnScored.v1', 'weights VersionPublished.v1', 'updates BatchSealed.v1'],
  )
  await audit.close()
  await log.append([{ ...poison[2]!, schema: 'BatchBlessed.v1' }])
  const stopped = await readAudit(log, POLICY)
  assert.match(stopped.broken?.what ?? '', /BatchBlessed/)
  await stopped.close()
})

test('a replay takes turns whose id, subject and hint fit an item of a batch, as the trainer does', () => {
  const audit = initialAudit(POLICY)
  const add = (event: Event): void => {
    evolveAudit(audit, decodeRecord({ ...encodeEvent(event), ...PLACE }))
  }
  const fitting = ['fits', 'long'].map((name, i) => {
    const turn = captured({ session: 's', messages: [{ role: 'user', content: name }], answer: name, at: i + 1, name })
    add({ ...turn, policy: POLICY })
    const room = MAX_ITEM_BYTES - Buffer.byteLength(turn.turn) - Buffer.byteLength(turn.subject)
    add({
      type: 'TurnScored',
      turn: turn.turn,
      session: 's',
      policy: POLICY,
      version: 0,
      subject: turn.subject,
      verdicts: [],
      cause: 'c',
      rank: null,
      at: i + 1,
      reward: -1,
      judge: 'j',
      hint: written('x'.repeat(room + i)),
      hintJudge: 'j',
    })
    return turn.turn
  })
  assert.equal(audit.turnOrder.length, 2)
  assert.deepEqual(
    [...scoredTurns(audit)].map(({ turn }) => turn),
    fitting.slice(0, 1),
  )
})

const TURNS = 60_000
/** Turns of a batch in a replay with other settings. */
const BATCH_ANEW = 500
/** The whole log is folded; this many turns from its start are replayed. */
const REPLAYED = 8_000

// With a small space for new objects: on a busy machine V8 reserved 200 MB for 57 MB of objects, and ended the process for it.
const V8_OPTIONS = '--max-semi-space-size=8'
const inProcess = async <T>(name: string, args: readonly string[], prefix = '', heap = 96): Promise<T> => {
  const program = fileURLToPath(new URL(`processes/${name}`, import.meta.url))
  const { stdout } = await promisify(execFile)(
    'sh',
    ['-c', `${prefix} exec "$0" "$@"`, process.execPath, V8_OPTIONS, `--max-old-space-size=${heap}`, program, ...args],
    { maxBuffer: 1 << 20 },
  )
  return JSON.parse(stdout) as T
}

let made: Promise<string> | null = null
/** The folder of a log with the long history, made once. */
const longLog = (): Promise<string> =>
  (made ??= (async () => {
    const data = mkdtempSync(join(tmpdir(), 'instar-long-'))
    folders.push(data)
    const folder = join(data, 'log')
    const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
    let batch: ReturnType<typeof encodeEvent>[] = []
    for (const record of longHistory({ turns: TURNS })) {
      batch.push(record)
      if (batch.length < 2_000) continue
      await log.append(batch)
      batch = []
    }
    await log.append(batch)
    await log.close()
    return folder
  })())

test(`verify of ${TURNS} turns needs less than 96 MiB of heap`, { timeout: 280_000 }, async (t) => {
  const { peak, ...found } = await inProcess<{ peak: number }>('verifier.ts', [await longLog()])
  assert.deepEqual(found, { ok: true, first: null, batches: TURNS / BATCH, held: TURNS / BATCH })
  t.diagnostic(`${Math.round(peak / 2 ** 20)} MiB at most`)
})

test('verify on a full disk reports the disk', { timeout: 280_000 }, async () => {
  // Files end at 4 MiB (8192 blocks of 512 bytes), as on a full disk.
  const { error } = await inProcess<{ error: { code: string; message: string } }>(
    'verifier.ts',
    [await longLog()],
    'ulimit -f 8192;',
  )
  assert.equal(error.code, 'no_temporary_file')
  assert.ok(error.message.includes(tmpdir()), error.message)
})

test(`doctor of ${TURNS} turns needs less than 96 MiB of heap`, { timeout: 280_000 }, async (t) => {
  const { found, peak } = await inProcess<{ found: { summary: string }; peak: number }>('folder.ts', [await longLog()])
  assert.equal(
    found.summary,
    `${TURNS} turns, ${TURNS} scores, ${TURNS / 8} updates (chain complete), 1 weights (chain complete), 0 blobs, 0 upgrades; 0 ignored`,
  )
  t.diagnostic(`${Math.round(peak / 2 ** 20)} MiB at most`)
})

test(`versions and show of ${TURNS / BATCH} batches need less than 48 MiB of heap`, { timeout: 280_000 }, async (t) => {
  const args = [await longLog(), 'versions']
  const { found, peak } = await inProcess<{ found: unknown; peak: number }>('folder.ts', args, '', 48)
  assert.deepEqual(found, { batches: TURNS / BATCH, last: BATCH })
  t.diagnostic(`${Math.round(peak / 2 ** 20)} MiB at most`)
})

// The last one, since it adds versions to the log.
test(`a replay on a log of ${TURNS} turns needs less than 96 MiB of heap`, { timeout: 280_000 }, async (t) => {
  const { peak, ...found } = await inProcess<{ peak: number }>('replayer.ts', [
    await longLog(),
    String(BATCH_ANEW),
    String(BEGAN_AT + REPLAYED),
  ])
  assert.deepEqual(found, { equal: null, batches: REPLAYED / BATCH_ANEW, versions: REPLAYED / BATCH_ANEW })
  t.diagnostic(`${Math.round(peak / 2 ** 20)} MiB at most`)
})
