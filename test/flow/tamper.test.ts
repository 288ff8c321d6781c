/** One byte of one record changed in the file, which `instar verify` must name. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { recordId, type Topic } from '@instar/events'
import { cpSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { dataFolder } from './process.ts'
import { open, talkTwice } from './history.ts'
import { witness } from './witness.ts'

type Difference = { topic: string; key: string; record: string; type: string; what: string }
type Report = { ok: boolean; first: Difference | null; batches: { batch: number; ok: boolean; mode: string }[] }
type Row = { offset: number; partition: number; key: string; schema: string; payload: Uint8Array }

const verify = async (data: string, ...args: string[]): Promise<{ code: number; report: Report }> => {
  const { code, out, err, json } = await instar(['verify', 'all', '--json', ...args], { INSTAR_DATA: data })
  ok(json, `${out}${err}`)
  return { code, report: json as Report }
}

describe('a log with one byte changed', { timeout: 280_000 }, () => {
  const data = dataFolder()
  const copies: string[] = []
  const turn = { id: '' }
  let score = ''
  let sealed = ''
  let computed = ''
  let adapter = ''
  let state = ''

  before(async () => {
    const place = await open(data)
    await talkTwice(place, 0)
    await talkTwice(place, 16)
    await place.stop()
    const seen = await witness(data)
    const batches = seen.chain.batches.filter((batch) => batch.update !== null)
    ok(batches.length >= 2, seen.summary())
    const [first] = batches
    const item = first!.sealed.items[3]!
    turn.id = item.record
    score = item.score
    sealed = first!.id
    computed = first!.update!.id
    adapter = first!.update!.event.adapter
    state = first!.update!.event.state
    await seen.stop()
  })

  /**
   * A copy of the log in which one byte of the first matching payload is changed. `at`: 0 is the first byte, 1 the
   * last.
   */
  const changed = (topic: Topic, fits: (id: string, row: Row) => boolean, at: number): { folder: string; row: Row } => {
    const folder = `${data}-${copies.length}`
    copies.push(folder)
    cpSync(data, folder, { recursive: true })
    const db = new DatabaseSync(join(folder, 'log', 'log.db'))
    const rows = db
      .prepare(
        `SELECT t.offset, t.partition, t.key, s.name AS schema, t.payload FROM "${topic}" t JOIN schemas s ON s.id = t.schema`,
      )
      .all() as Row[]
    const row = rows.find((one) => fits(recordId({ topic, ...one }), one))
    ok(row, `no such record on ${topic}`)
    const payload = Uint8Array.from(row.payload)
    const byte = Math.round(at * (payload.length - 1))
    payload[byte] = payload[byte]! ^ 1
    db.prepare(`UPDATE "${topic}" SET payload = ? WHERE offset = ?`).run(payload, row.offset)
    db.close()
    return { folder, row: { ...row, payload } }
  }

  /**
   * Expects the record by its id or, if its bytes are unreadable, by its position; on a chain also the record after it.
   */
  const names = (first: Difference | null, topic: Topic, id: string, row: Row): void => {
    ok(first, 'a difference')
    const current = recordId({ topic, ...row })
    const said =
      [id, `${row.partition}@${row.offset}`].includes(first.record) || first.what.includes(current.slice(0, 12))
    ok(said && first.topic === topic, `${topic} ${id} ${row.partition}@${row.offset}: ${JSON.stringify(first)}`)
  }

  const PLACES = [0.02, 0.5, 1]

  test('verify accepts the unchanged log and computes every batch again', async () => {
    const { code, report } = await verify(data)
    deepEqual([code, report.ok, report.first], [0, true, null])
    ok(report.batches.every((batch) => batch.mode !== 'digests'))
  })

  test('verify finds a changed byte in a turn of a batch', async () => {
    for (const at of PLACES) {
      const { folder, row } = changed('turns', (id) => id === turn.id, at)
      const { code, report } = await verify(folder, '--digests')
      deepEqual([code, report.ok], [1, false])
      names(report.first, 'turns', turn.id, row)
    }
  })

  test('verify finds a changed byte in a score of a batch', async () => {
    for (const at of PLACES) {
      const { folder, row } = changed('scores', (id) => id === score, at)
      const { code, report } = await verify(folder, '--digests')
      deepEqual([code, report.ok], [1, false])
      names(report.first, 'scores', score, row)
    }
  })

  test('verify finds a changed byte in a BatchSealed', async () => {
    for (const at of PLACES) {
      const { folder, row } = changed('updates', (id) => id === sealed, at)
      const { code, report } = await verify(folder, '--digests')
      deepEqual([code, report.ok], [1, false])
      names(report.first, 'updates', sealed, row)
    }
  })

  test('verify finds a changed byte in an UpdateComputed', async () => {
    const { folder, row } = changed('updates', (id) => id === computed, 0.5)
    const { report } = await verify(folder, '--digests')
    equal(report.ok, false)
    names(report.first, 'updates', computed, row)
  })

  test('verify finds a changed byte in a chunk of an adapter and of the state of the optimizer', async () => {
    for (const blob of [adapter, state]) {
      for (const at of [0.1, 0.5, 0.9]) {
        const { folder } = changed('blobs', (_, row) => row.key === blob, at)
        const { code, report } = await verify(folder, '--digests')
        deepEqual([code, report.ok], [1, false])
        deepEqual([report.first?.topic, report.first?.key], ['blobs', blob])
      }
    }
  })

  test('verify reports a result that is computed from changed bytes as a difference, not as its own error', async () => {
    for (const [topic, fits] of [
      ['turns', (id: string) => id === turn.id],
      ['blobs', (_: string, row: Row) => row.key === adapter],
    ] as const) {
      const { folder } = changed(topic, fits, 0.5)
      const { code, report } = await verify(folder)
      deepEqual([code, report.ok, report.first?.topic], [1, false, topic])
    }
  })
})
