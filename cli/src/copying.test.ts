/** `instar log copy` between embedded logs; test/int copies to Kafka and back. */
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { deepEqual, equal, match } from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { copyProgress } from './copying.ts'
import { folder, instar } from '../../test/kit/cli-world.ts'

const feedback = (session: string, i: number) => {
  const { id: _, ...record } = encodeEvent({
    type: 'FeedbackGiven',
    id: `f${i}`,
    session,
    turn: null,
    value: 1,
    comment: null,
    subject: 'u',
    key: null,
    at: 1000 + i,
  })
  return record
}

const withLog = async (data: string, count: number, first = 0): Promise<void> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(Array.from({ length: count }, (_, i) => feedback(`s${i % 5}`, first + i)))
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
  test('copies, resumes, and prints its result as the last line', async () => {
    const [from, to] = [folder(), join(folder(), 'copy')]
    await withLog(from, 30)
    const first = await instar(['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'], {})
    equal(first.code, 0, first.err)
    const { topics, copied, skipped, wallMs } = first.json as Report
    deepEqual([copied, skipped, topics.turns?.records, topics.turns?.digest.length], [30, 0, 30, 64])
    equal(wallMs > 0, true)
    match(first.err, /^copy +turns +█+ +100%  30 records/m)

    await withLog(from, 10, 30)
    const again = await instar(
      ['log', 'copy', '--from', 'embedded', '--to', 'embedded:copy', '--json'],
      { INSTAR_DATA: from },
      join(to, '..'),
    )
    deepEqual(
      [again.code, (again.json as Report).copied, (again.json as Report).skipped, (again.json as Report).equal],
      [0, 10, 30, true],
    )
    const people = await instar(['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`], {})
    match(people.out, /^turns +40 +\d+  [0-9a-f]{16}$/m)
    match(people.out, /0 copied, 40 were there, .*; equal, key by key/)
  })

  test('changes partition counts only on request', async () => {
    const [from, to] = [folder(), folder()]
    await withLog(from, 30)
    const args = ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json']
    equal((await instar([...args, '--partitions', 'turns=3,scores=1'], {})).code, 0)
    const copy = await openEmbeddedLog({ folder: join(to, 'log'), readOnly: true })
    deepEqual([copy.partitions('turns'), copy.partitions('scores'), copy.partitions('updates')], [3, 1, 4])
    await copy.close()
    const plain = await instar(args, {})
    equal(plain.code, 1)
    match(
      plain.err,
      /partition_count_changed: The destination has 3 partitions of turns, the copy would have 8: --partitions turns=3 copies/,
    )
  })

  test('does not change a destination with other records and names the difference', async () => {
    const [from, to] = [folder(), folder()]
    await withLog(from, 5)
    await withLog(to, 5, 100)
    const { code, json, err } = await instar(
      ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'],
      {},
    )
    equal(code, 1)
    equal((json as { error: { code: string } }).error.code, 'copy_differs')
    match(err, /copy_differs: turns \d@\d+, key s\d: its time is/)
    equal(
      (
        (await instar(['log', 'copy', '--from', `embedded:${to}`, '--to', `embedded:${folder()}`, '--json'], {}))
          .json as Report
      ).copied,
      5,
    )
  })

  test('refuses impossible arguments before it opens a log', async () => {
    const [from, to] = [folder(), folder()]
    await withLog(from, 1)
    const cases: [args: string[], code: number, said: RegExp][] = [
      [['log'], 2, /something is missing/],
      [['log', 'move'], 2, /there is no `log move`/],
      [['log', 'copy', '--from', 'embedded'], 2, /--from and --to are needed/],
      [['log', 'copy', '--from', 'file:x', '--to', 'embedded'], 2, /file:x is no log/],
      [
        ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--partitions', 'turn=1'],
        2,
        /--partitions turn=1 is not of the form/,
      ],
      [['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${from}/.`], 1, /the same log/],
      [
        ['log', 'copy', '--from', `embedded:${to}`, '--to', `embedded:${from}`],
        1,
        /data_unreadable: There is no log in/,
      ],
      [['log', 'copy', '--from', `embedded:${from}`, '--to', 'kafka://127.0.0.1:9'], 1, /needs INSTAR_REGISTRY/],
    ]
    for (const [args, code, said] of cases) {
      const answer = await instar(args, { INSTAR_DATA: from })
      equal(answer.code, code, answer.err)
      match(answer.err, said)
    }
  })

  test('refuses a destination that a process writes', async () => {
    const [from, to] = [folder(), folder()]
    await withLog(from, 1)
    const writer = await openEmbeddedLog({ folder: join(to, 'log'), schemas: schemaTexts() })
    const { code, json } = await instar(
      ['log', 'copy', '--from', `embedded:${from}`, '--to', `embedded:${to}`, '--json'],
      {},
    )
    deepEqual([code, (json as { error: { code: string } }).error.code], [1, 'data_in_use'])
    await writer.close()
  })
})

test('the progress bar estimates the rest of a topic, redrawn on a terminal and printed at intervals elsewhere', () => {
  let at = 0
  const said: string[] = []
  const progress = copyProgress(
    (text) => said.push(text),
    false,
    () => at,
  )
  const show = (share: number): void =>
    progress.show({ phase: 'copy', topic: 'turns', share, records: 1000 * share, bytes: 5e6 * share })
  for (const [time, share] of [
    [0, 0.01],
    [6000, 0.2],
    [7000, 0.25],
    [30_000, 1],
  ] as const) {
    at = time
    show(share)
  }
  deepEqual(said, [
    'copy         turns   ████░░░░░░░░░░░░░░░░  20%  200 records, 1.0 MB, about 24 s left of this topic\n',
    'copy         turns   ████████████████████ 100%  1000 records, 5.0 MB\n',
  ])
  const drawn: string[] = []
  const terminal = copyProgress(
    (text) => drawn.push(text),
    true,
    () => 0,
  )
  terminal.show({ phase: 'compare', topic: 'blobs', share: 1, records: 0, bytes: 0 })
  terminal.end()
  deepEqual([drawn.length, drawn.every((text) => text.startsWith('\r\x1b[2K'))], [2, true])
})
