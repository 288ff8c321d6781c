/** `instar archive` in a folder, of an embedded log; test/flow/archive.test.ts restores a trained one. */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { feedbackRecord } from '../../../test/kit/feedback-record.ts'

const appendFeedback = async (data: string, count: number, first = 0): Promise<void> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(Array.from({ length: count }, (_, i) => feedbackRecord(`s${i % 5}`, first + i)))
  await log.close()
}

type Report = {
  topics: Record<string, { records: number; objects: number; bytes: number; ends: Record<string, number> }>
  added: { records: number; objects: number; bytes: number }
  manifest: string
}

describe('instar archive', () => {
  test('archives, adds what is new, verifies, and restores into an empty log', async () => {
    const [data, place, into] = [folder(), join(folder(), 'archive'), folder()]
    await appendFeedback(data, 30)
    const first = await instar(['archive', '--to', place, '--json'], { INSTAR_DATA: data })
    equal(first.code, 0, first.err)
    const { topics, added, manifest } = first.json as Report
    deepEqual([added.records, topics.turns?.records, manifest.length], [30, 30, 64])
    match(first.err, /^archive +turns +█+ +100%  30 records/m)

    await appendFeedback(data, 10, 30)
    const text = await instar(['archive', '--to', place, '--data', data], {})
    match(text.out, /^turns +40 +\d+ +\d+$/m)
    match(text.out, /^10 records added in \d objects, .*; manifest [0-9a-f]{64}$/m)

    const checked = await instar(['archive', 'verify', '--from', place, '--json'], {})
    equal(checked.code, 0, checked.err)
    const { problems, complete, manifest: second } = checked.json as Report & { problems: unknown[]; complete: boolean }
    deepEqual([problems, complete], [[], true])
    match((await instar(['archive', 'verify', '--from', place], {})).out, /^every object is as the manifest says/m)

    const pinned = ['archive', 'restore', '--from', place, '--manifest']
    const other = await instar([...pinned, manifest], { INSTAR_DATA: into })
    match(other.err, /archive_damaged: .*manifest.json: its sha256 is/)
    const restored = await instar([...pinned, second, '--json'], { INSTAR_DATA: into })
    equal(restored.code, 0, restored.err)
    const report = restored.json as { copied: number; equal: boolean; complete: boolean; manifest: string }
    deepEqual([report.copied, report.equal, report.complete, report.manifest], [40, true, true, second])
    const compared = await instar(
      ['log', 'copy', '--from', `embedded:${data}`, '--to', `embedded:${into}`, '--json'],
      {},
    )
    deepEqual([(compared.json as { skipped: number }).skipped, compared.code], [40, 0])
  })

  test('compares the archive with the log, in use or not: what is new is counted, what differs ends with exit code 1', async () => {
    const [data, place, other] = [folder(), folder(), folder()]
    await appendFeedback(data, 30)
    await instar(['archive', '--to', place], { INSTAR_DATA: data })
    await appendFeedback(data, 3, 30)
    const compared = async (at: string): Promise<[number, unknown]> => {
      const { code, json, err } = await instar(['archive', 'verify', '--from', place, '--log', '--json'], {
        INSTAR_DATA: at,
      })
      ok(json, err)
      return [code, (json as { log: unknown }).log]
    }
    deepEqual(await compared(data), [0, { records: 30, damaged: 0, behind: 3, checkpoints: [], first: null }])
    const text = await instar(['archive', 'verify', '--from', place, '--log'], { INSTAR_DATA: data })
    match(text.out, /^as the log has them: 30 records; the log has 3 more$/m)
    await appendFeedback(other, 33, 1000)
    const [code, log] = await compared(other)
    deepEqual([code, (log as { first: { topic: string } }).first.topic], [1, 'turns'])
    equal((await instar(['archive', 'verify', '--from', place, '--registry', 'http://x'], {})).code, 2)
    equal((await instar(['archive', '--to', place, '--log'], {})).code, 2)
  })

  test('names a record that is damaged on the log, with exit code 0, and archives the others', async () => {
    const [data, place, into] = [folder(), folder(), folder()]
    await appendFeedback(data, 30)
    using db = new DatabaseSync(join(data, 'log', 'log.db'))
    db.exec('UPDATE turns SET checksum = checksum + 1 WHERE offset = 7')
    const archived = await instar(['archive', '--to', place, '--json'], { INSTAR_DATA: data })
    const verified = await instar(['archive', 'verify', '--from', place, '--json'], {})
    const restored = await instar(['archive', 'restore', '--from', place, '--json'], { INSTAR_DATA: into })
    for (const { code, json, err } of [archived, verified, restored]) {
      const { records, first } = (json as { damaged: { records: number; first: { offset: number }[] } }).damaged
      deepEqual([code, records, first.map(({ offset }) => offset)], [0, 1, [7]])
      match(err, /WARNING: 1 record of the log did not match its checksum and is .*: turns \d+@7$/m)
    }
    equal((archived.json as Report).added.records, 29)
    deepEqual((restored.json as { copied: number; equal: boolean }).copied, 29)
  })

  test('names a damaged object, with exit code 1', async () => {
    const [data, place] = [folder(), folder()]
    await appendFeedback(data, 30)
    await instar(['archive', '--to', place], { INSTAR_DATA: data })
    const partition = readdirSync(join(place, 'objects', 'turns'))[0]!
    const [name] = readdirSync(join(place, 'objects', 'turns', partition))
    rmSync(join(place, 'objects', 'turns', partition, name!))
    const object = `objects/turns/${partition}/${name}`
    const checked = await instar(['archive', 'verify', '--from', place, '--json'], {})
    equal(checked.code, 1)
    deepEqual((checked.json as { problems: unknown[] }).problems, [{ object, what: 'it is missing' }])
    match((await instar(['archive', 'verify', '--from', place], {})).out, /it is missing\n1 DAMAGED/)
    const restored = await instar(['archive', 'restore', '--from', place], { INSTAR_DATA: folder() })
    equal(restored.code, 1)
    match(restored.err, new RegExp(`archive_damaged: .*${object}: it is missing`))
  })

  test('a restore into a log with other records is refused, and changes nothing', async () => {
    const [data, other, place] = [folder(), folder(), folder()]
    await appendFeedback(data, 5)
    await appendFeedback(other, 5, 100)
    await instar(['archive', '--to', place], { INSTAR_DATA: data })
    const { code, err } = await instar(['archive', 'restore', '--from', place, '--to', `embedded:${other}`], {})
    equal(code, 1)
    match(err, /copy_differs: turns/)
  })

  test('invalid arguments are refused', async () => {
    const [data, place] = [folder(), folder()]
    await appendFeedback(data, 1)
    const cases: [args: string[], code: number, err: RegExp][] = [
      [[], 2, /--to PLACE is required/],
      [['move'], 2, /unknown subcommand: archive move/],
      [['verify'], 2, /--from PLACE is required/],
      [['restore'], 2, /--from PLACE is required/],
      [['--to', place, '--from', place], 2, /--from is no option of archive/],
      [['verify', '--from', place, '--to', place], 2, /--to is no option of archive verify/],
      [['verify', '--from', place, '--manifest', 'abc'], 2, /not a SHA-256/],
      [['verify', '--from', place], 1, /archive_damaged: .*manifest.json: it is missing, so there is no archive/],
      [['--to', join(data, 'log', 'log.db', 'x')], 1, /archive_unavailable: /],
    ]
    for (const [args, code, err] of cases) {
      const result = await instar(['archive', ...args], { INSTAR_DATA: data })
      equal(result.code, code, result.err)
      match(result.err, err)
    }
    const nothing = await instar(['archive', '--to', place], { INSTAR_DATA: folder() })
    match(nothing.err, /data_unreadable: .* holds no log/)
  })
})
