/** A copy that follows a log in use: nothing lost, nothing twice, and the last round reads what is new alone. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { all, byKey, note, range } from '../../../../test/kit/event-log/harness.ts'
import { behindOf, followLog, openMemoryLog, type CopyRound, type EventLog } from '../index.ts'

const append = (log: EventLog, from: number, count: number): Promise<unknown> =>
  log.append(range(count).map((i) => note(`k${(from + i) % 40}`, `${from + i}`, { timestamp: 1000 + from + i })))

const lackOf = async (from: EventLog, to: EventLog): Promise<number[]> =>
  Object.values(await behindOf(from, to)).map(({ source, copy }) => source - copy)

/** Counts the records that are read of a log. */
const counted = (log: EventLog): { log: EventLog; read(): number } => {
  let records = 0
  const read: EventLog['read'] = async function* (topic, options) {
    for await (const page of log.read(topic, options)) {
      records += page.length
      yield page
    }
  }
  return {
    read: () => records,
    log: new Proxy(log, {
      get: (target, name) => {
        if (name === 'read') return read
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    }),
  }
}

describe('a copy that follows', () => {
  for (const turns of [8, 12, 64]) {
    test(`has every record of a log that was written to meanwhile, once and in order, with ${turns} partitions`, async () => {
      const source = openMemoryLog()
      const to = openMemoryLog({ partitions: { turns } })
      await to.append([note('readers', 'setup', { topic: 'upgrades' })])
      await source.append([note('readers', 'up', { topic: 'upgrades' })])
      await append(source, 0, 500)
      const writersStopped = new AbortController()
      const rounds: CopyRound[] = []
      let written = 500
      const report = await followLog({
        from: source,
        to,
        writersStopped: writersStopped.signal,
        pauseMs: 1,
        quietMs: 20,
        onRound(round) {
          rounds.push(round)
          if (rounds.length === 20) writersStopped.abort()
          if (rounds.length < 20) void append(source, written, 50)
          if (rounds.length < 20) written += 50
        },
      })
      assert.deepEqual(byKey(await all(to.read('turns'))), byKey(await all(source.read('turns'))))
      assert.deepEqual(
        [report.equal, report.sourceGrew, report.copied, report.topics.turns.records, report.topics.upgrades.records],
        [true, false, written + 1, written, 1],
      )
      assert.equal(written, 500 + 19 * 50)
      assert.ok(report.rounds >= 20 && rounds.at(-1)!.behind === 0, JSON.stringify(rounds))
      assert.deepEqual(await lackOf(source, to), [0, 0, 0, 0, 0, 0])
    })
  }

  test('reads in its last rounds what is new alone, on both logs', async () => {
    const [source, to] = [counted(openMemoryLog()), counted(openMemoryLog({ partitions: { turns: 64 } }))]
    await append(source.log, 0, 5000)
    const writersStopped = new AbortController()
    let before = 0
    let rounds = 0
    await followLog({
      from: source.log,
      to: to.log,
      writersStopped: writersStopped.signal,
      quietMs: 10,
      pauseMs: 1,
      onRound() {
        rounds += 1
        if (rounds > 1) return
        before = source.read() + to.read()
        void append(source.log, 5000, 7)
        writersStopped.abort()
      },
    })
    assert.ok(before >= 15_000, `the first copy has read ${before}`)
    // Copied, and compared on both sides.
    assert.equal(source.read() + to.read() - before, 3 * 7)
  })

  test('says that its source still grows after the writers were said to have stopped', async () => {
    const [source, to] = [openMemoryLog(), openMemoryLog({ partitions: { turns: 12 } })]
    await append(source, 0, 10)
    const writersStopped = new AbortController()
    writersStopped.abort()
    let written = 10
    const { sourceGrew, equal } = await followLog({
      from: source,
      to,
      writersStopped: writersStopped.signal,
      quietMs: 1e6,
      settleMs: 50,
      pauseMs: 1,
      onRound: () => void append(source, written++, 1),
    })
    assert.deepEqual([sourceGrew, equal], [true, true])
  })

  test('finds a record that another process wrote to the copy, and ends', async () => {
    const [source, to] = [openMemoryLog(), openMemoryLog({ partitions: { turns: 12 } })]
    await append(source, 0, 10)
    const { equal, first } = await followLog({
      from: source,
      to,
      writersStopped: new AbortController().signal,
      pauseMs: 1,
      onRound: () => void to.append([note('k3', 'a request to a gateway of the copy')]),
    })
    assert.deepEqual([equal, first?.topic, first?.key], [false, 'turns', 'k3'])
    assert.match(first!.what, /the destination has this record, the source has none/)
  })
})

test('how far a copy is behind is known from the ends, by topic; announcements are compared one by one', async () => {
  const [source, to] = [openMemoryLog(), openMemoryLog({ partitions: { turns: 64 } })]
  await append(source, 0, 30)
  await append(to, 0, 12)
  await to.append([note('readers', 'setup', { topic: 'upgrades' })])
  await source.append([note('readers', 'up', { topic: 'upgrades' })])
  const { turns, scores, upgrades } = await behindOf(source, to)
  assert.deepEqual(
    { turns, scores, upgrades },
    { turns: { source: 30, copy: 12 }, scores: { source: 0, copy: 0 }, upgrades: { source: 1, copy: 0 } },
  )
  const withDeadLetters = await behindOf(source, to, (topic) => Promise.resolve(topic === 'turns' ? 3 : 0))
  assert.deepEqual(withDeadLetters.turns, { source: 27, copy: 12 })
})
