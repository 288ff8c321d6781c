/** `instar log copy` between embedded logs; test/int copies to Kafka and back. */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { deepEqual, equal, match } from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { runCli } from '../cli.ts'
import { feedbackRecord } from '../../../test/kit/feedback-record.ts'

const appendFeedback = async (data: string, count: number, first = 0): Promise<void> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(Array.from({ length: count }, (_, i) => feedbackRecord(`s${i % 5}`, first + i)))
  await log.close()
}

type Report = {
  topics: Record<string, { records: number; bytes: number; digest: string }>
  copied: number
  skipped: number
  equal: boolean
  first: unknown
  wallMs: number
}

describe('instar log copy', () => {
  test('copies, continues a copy, and prints the report as the last line', async () => {
    const [from, to] = [folder(), join(folder(), 'copy')]
    await appendFeedback(from, 30)
    const first = await instar(['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'], {})
    equal(first.code, 0, first.err)
    const { topics, copied, skipped, wallMs } = first.json as Report
    deepEqual([copied, skipped, topics.turns?.records, topics.turns?.digest.length], [30, 0, 30, 64])
    equal(wallMs > 0, true)
    match(first.err, /^copy +turns +█+ +100%  30 records/m)

    await appendFeedback(from, 10, 30)
    const second = await instar(
      ['log', 'copy', '--from', 'embedded', '--to', 'embedded:copy', '--json'],
      { INSTAR_DATA: from },
      join(to, '..'),
    )
    deepEqual(
      [second.code, (second.json as Report).copied, (second.json as Report).skipped, (second.json as Report).equal],
      [0, 10, 30, true],
    )
    const text = await instar(['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`], {})
    match(text.out, /^turns +40 +\d+  [0-9a-f]{16}$/m)
    match(text.out, /0 copied, 40 already present, .*; every key is equal/)
  })

  test('behind says how many records the copy lacks, by topic; exit code 1 if it lacks any', async () => {
    const [from, to] = [folder(), join(folder(), 'copy')]
    await appendFeedback(from, 30)
    const ends = ['--from', `embedded:${from}`, '--to', `embedded:${to}`]
    equal((await instar(['log', 'copy', ...ends, '--partitions', 'turns=64'], {})).code, 0)
    const none = await instar(['log', 'behind', ...ends, '--json'], {})
    deepEqual([none.code, (none.json as { behind: number }).behind], [0, 0])
    await appendFeedback(from, 12, 30)
    const { code, json } = await instar(['log', 'behind', ...ends, '--json'], {})
    const { behind, topics } = json as { behind: number; topics: Record<string, unknown> }
    deepEqual([code, behind, topics.turns], [1, 12, { source: 42, copy: 30 }])
    match(
      (await instar(['log', 'behind', ...ends], {})).out,
      /^turns +42 +30 +12$[^]*the copy is 12 records behind\n$/m,
    )
  })

  test('a copy that follows says how far it is behind, and ends with the rest after its writers have stopped', async () => {
    const [from, to] = [folder(), join(folder(), 'copy')]
    await appendFeedback(from, 30)
    const log = await openEmbeddedLog({ folder: join(from, 'log'), schemas: schemaTexts() })
    const stop = new AbortController()
    let err = ''
    let out = ''
    const code = await runCli(
      [
        'log',
        'copy',
        '--from',
        `embedded:${from}`,
        '--to',
        `embedded:${to}`,
        '--partitions',
        'turns=64',
        '--follow',
        '--json',
      ],
      {
        env: {},
        cwd: '/',
        out: (text) => (out += text),
        err(text) {
          err += text
          if (!text.startsWith('follows')) return
          void log
            .append(Array.from({ length: 20 }, (_, i) => feedbackRecord(`s${i % 5}`, 100 + i)))
            .then(() => stop.abort())
        },
        terminal: false,
        stop: stop.signal,
      },
    )
    await log.close()
    match(err, /^follows +the copy is 0 records behind, 0 copied since the first copy$/m)
    const report = JSON.parse(out) as Report & { rounds: number; sourceGrew: boolean }
    deepEqual(
      [code, report.copied, report.equal, report.sourceGrew, report.topics.turns?.records, report.rounds > 1],
      [0, 50, true, false, 50, true],
    )
  })

  test('partition counts are those of the source unless --partitions is given', async () => {
    const [from, to] = [folder(), folder()]
    await appendFeedback(from, 30)
    const args = ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json']
    equal((await instar([...args, '--partitions', 'turns=3,scores=1'], {})).code, 0)
    const copy = await openEmbeddedLog({ folder: join(to, 'log'), readOnly: true })
    deepEqual([copy.partitions('turns'), copy.partitions('scores'), copy.partitions('updates')], [3, 1, 4])
    await copy.close()
    const plain = await instar(args, {})
    equal(plain.code, 1)
    match(
      plain.err,
      /partition_count_changed: The destination has 3 partitions of turns, the copy would have 8\. To copy into it as it is: --partitions turns=3\./,
    )
  })

  test('a destination with other records is refused with the first difference, and not changed', async () => {
    const [from, to] = [folder(), folder()]
    await appendFeedback(from, 5)
    await appendFeedback(to, 5, 100)
    const { code, json, err } = await instar(
      ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'],
      {},
    )
    equal(code, 1)
    equal((json as { error: { code: string } }).error.code, 'copy_differs')
    match(err, /copy_differs: turns \d@\d+, key s\d: its timestamp is/)
    equal(
      (
        (await instar(['log', 'copy', '--from', `embedded:${to}`, '--to', `embedded:${folder()}`, '--json'], {}))
          .json as Report
      ).copied,
      5,
    )
  })

  test('ends at a damaged record and names it; with --skip-damaged it copies the others, names it, and continues later', async () => {
    const [from, to] = [folder(), join(folder(), 'copy')]
    await appendFeedback(from, 30)
    using db = new DatabaseSync(join(from, 'log', 'log.db'))
    db.exec('UPDATE turns SET timestamp = timestamp + 1 WHERE offset IN (7, 21)')
    db.close()
    const args = ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json']
    const ended = await instar(args, {})
    deepEqual([ended.code, (ended.json as { error: { code: string } }).error.code], [1, 'bad_record'])
    match(ended.err, /bad_record: the record at turns \d@7 does not match its checksum.*--skip-damaged/)

    const skipped = await instar([...args, '--skip-damaged'], {})
    const report = skipped.json as Report & { damaged: { records: number; first: { offset: number }[] } }
    deepEqual([skipped.code, report.topics.turns?.records, report.equal], [0, 28, true])
    deepEqual(
      [report.damaged.records, report.damaged.first.map(({ offset }) => offset).sort((a, b) => a - b)],
      [2, [7, 21]],
    )
    match(skipped.err, /^WARNING: 2 records of the log did not match their checksums and are not copied: turns /m)

    await appendFeedback(from, 10, 30)
    const continued = (await instar([...args, '--skip-damaged'], {})).json as Report
    deepEqual([continued.copied, continued.skipped, continued.equal], [10, 28, true])
    const copy = await openEmbeddedLog({ folder: join(to, 'log'), readOnly: true })
    for await (const page of copy.read('turns')) deepEqual(page.filter(({ damaged }) => damaged).length, 0)
    await copy.close()
    const other = `embedded:${folder()}`
    const kept = [...args.slice(0, 5), other, '--partitions', 'turns=3', '--json', '--skip-damaged']
    deepEqual(((await instar(kept, {})).json as Report).copied, 38)
  })

  test('invalid arguments are refused before anything is opened for writing', async () => {
    const [from, to] = [folder(), folder()]
    await appendFeedback(from, 1)
    const cases: [args: string[], code: number, err: RegExp][] = [
      [['log'], 2, /an argument is missing/],
      [['log', 'move'], 2, /unknown subcommand: log move/],
      [['log', 'copy', '--from', 'embedded'], 2, /--from LOG and --to LOG are required/],
      [['log', 'copy', '--from', 'file:x', '--to', 'embedded'], 2, /file:x is not the address of a log/],
      [
        ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--partitions', 'turn=1'],
        2,
        /--partitions turn=1 is not of the form/,
      ],
      [['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${from}/.`], 1, /the same log/],
      [['log', 'copy', '--from', `embedded:${to}`, '--to', `embedded:${from}`], 1, /data_unreadable: .* holds no log/],
      [
        ['log', 'copy', '--from', `embedded:${from}`, '--to', 'kafka://127.0.0.1:9'],
        1,
        /bad_request: .*INSTAR_REGISTRY/,
      ],
    ]
    for (const [args, code, err] of cases) {
      const result = await instar(args, { INSTAR_DATA: from })
      equal(result.code, code, result.err)
      match(result.err, err)
    }
  })

  test('a destination that another process has open for writing is refused', async () => {
    const [from, to] = [folder(), folder()]
    await appendFeedback(from, 1)
    const writer = await openEmbeddedLog({ folder: join(to, 'log'), schemas: schemaTexts() })
    const { code, json } = await instar(
      ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'],
      {},
    )
    deepEqual([code, (json as { error: { code: string } }).error.code], [1, 'data_in_use'])
    await writer.close()
  })
})
