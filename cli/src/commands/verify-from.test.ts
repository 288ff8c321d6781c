/** `instar verify all --from-checkpoint` on the embedded log, with records that were changed in its file. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { folder, instar, type CliResult } from '../../../test/kit/cli.ts'
import { longHistory } from '../../../test/kit/long-history.ts'

const TURNS = 640
const BATCHES = TURNS / 16

type Report = {
  ok: boolean
  batches: { batch: number; ok: boolean }[]
  first: { type: string; record: string } | null
  trusted: { record: string; turns: number; batches: number; versions: number } | null
}

test('behind a checkpoint verify finds what it finds from the start; what lies before is not looked at, and the output says so', async () => {
  const data = join(folder(), 'data')
  const records = [...longHistory({ turns: TURNS, updates: true })]
  const append = async (from: number, to: number): Promise<void> => {
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    await log.append(records.slice(from, to))
    await log.close()
  }
  const verify = (place: string, ...more: string[]): Promise<CliResult> =>
    instar(['verify', 'all', '--digests', ...more], { INSTAR_DATA: place })
  const both = async (place: string): Promise<{ whole: Report; from: Report; codes: number[] }> => {
    const [whole, from] = [await verify(place, '--json'), await verify(place, '--from-checkpoint', '--json')]
    ok(whole.json && from.json, `${whole.err}${from.err}`)
    return { whole: whole.json as Report, from: from.json as Report, codes: [whole.code, from.code] }
  }
  await append(0, 1000)
  const none = await verify(data, '--from-checkpoint')
  deepEqual([none.code, /no_checkpoint: .*`?none of this build/.test(none.err)], [1, true], none.err)
  const written = await instar(['checkpoint', 'audit', '--json'], { INSTAR_DATA: data })
  equal(written.code, 0, written.err)
  await append(1000, records.length)

  const good = await both(data)
  const { trusted } = good.from
  ok(trusted && trusted.batches > 20 && trusted.batches < 30, JSON.stringify(trusted))
  deepEqual([good.codes, good.whole.trusted, good.whole.batches.length], [[0, 0], null, BATCHES])
  deepEqual(good.from.batches, good.whole.batches.slice(-good.from.batches.length))
  ok(good.from.batches[0]!.batch <= trusted.batches + 1)
  match(
    (await verify(data, `--from-checkpoint=${trusted.record.slice(0, 10)}`)).out,
    new RegExp(
      `no difference: ${good.from.batches.length} batches\nfrom the checkpoint of .* UTC, record ${trusted.record.slice(0, 12)}, which .*` +
        `Not looked at: the ${trusted.batches} batches, ${trusted.versions} versions and ${trusted.turns} turns before it\n`,
    ),
  )

  /** A copy of the log with one byte changed in the update of this version. */
  const forged = (version: number): string => {
    const place = join(folder(), 'data')
    cpSync(data, place, { recursive: true })
    const db = new DatabaseSync(join(place, 'log', 'log.db'))
    const row = db
      .prepare(
        `SELECT t.offset, t.payload FROM updates t JOIN schemas s ON s.id = t.schema
         WHERE s.name LIKE 'UpdateComputed%' ORDER BY t.offset LIMIT 1 OFFSET ?`,
      )
      .get(version - 1) as { offset: number; payload: Uint8Array }
    const payload = Uint8Array.from(row.payload)
    payload[payload.length >> 1]! ^= 1
    db.prepare('UPDATE updates SET payload = ? WHERE offset = ?').run(payload, row.offset)
    db.close()
    return place
  }
  const behind = await both(forged(BATCHES - 2))
  deepEqual(behind.codes, [1, 1])
  deepEqual([behind.from.first, behind.from.ok], [behind.whole.first, false])
  const before = await both(forged(5))
  deepEqual([before.codes, before.whole.ok, before.from.ok], [[1, 0], false, true])
  deepEqual([before.from.first, before.from.trusted], [null, trusted])
  deepEqual(before.from.batches, good.from.batches)

  equal((await verify(data, '--from-checkpoint=latest')).code, 2)
  equal((await verify(data, '--checkpoints', '--from-checkpoint')).code, 2)
})
