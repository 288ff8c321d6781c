/** Turns are found by what their scores say, at the price of the records beside them and not of the log. */
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, type InstarError } from '@instar/events'
import { allow } from '../../../test/kit/event-log/cutting.ts'
import { captured, turnNamed } from '../../../test/kit/scored-history.ts'
import { logWith } from './log-with.ts'
import { openMemoryLog, type MemoryLog } from './memory/log.ts'
import { LAST_PART, MOST_FOUND, TurnFinder, type ScoredPlace } from './turn-finder.ts'
import { createTurnReader, ifReadable } from './turn-reader.ts'

const HOUR = 3_600_000
/** Session `s` begins here. */
const AT = 100 * HOUR

/** Appends turns of other sessions, one a minute, and counts the records that searches read. */
class Traffic {
  readonly log: MemoryLog = openMemoryLog({ partitions: { turns: 1 } })
  readonly places = new Map<string, ScoredPlace>()
  searches: { from: unknown; to: unknown }[] = []
  readonly finder = new TurnFinder(
    {
      read: (topic, options) => {
        this.searches.push({ from: options?.from, to: options?.to })
        return this.log.read(topic, options)
      },
      starts: (topics) => this.log.starts!(topics),
      ends: (topics) => this.log.ends(topics),
      partitions: (topic) => this.log.partitions(topic),
    },
    (turn) => this.places.get(turn),
  )
  reader = createTurnReader(this.log, (turn) => this.finder.positionOf(turn))

  async others(from: number, to: number): Promise<void> {
    for (let at = from; at < to; at += 60_000)
      await this.add(captured({ session: `o${at}`, messages: [{ role: 'user', content: 'x' }], answer: 'y', at }))
  }

  async add(event: ReturnType<typeof captured>): Promise<{ partition: number; offset: number }> {
    const [{ partition, offset } = { partition: -1, offset: -1 }] = await this.log.append([encodeEvent(event)])
    return { partition, offset }
  }

  /** The turn `n` of the session, whose prompt refers to the turn before it. */
  async turn(n: number, at: number): Promise<[turn: string, position: { partition: number; offset: number }]> {
    const event = captured({
      session: 's',
      messages: [{ role: 'user', content: `${n}` }],
      answer: 'y',
      at,
      name: `${n}`,
    })
    const from = n === 0 ? null : turnNamed('s', `${n - 1}`)
    const before = from === null ? 0 : 2 * n
    const prompt = { from, prefix: before, ids: [n], length: before + 1 }
    const own = { ...event, ids: [n + 100], logprobs: [-1], finishedAt: at + 1000, prompt }
    return [own.turn, await this.add(own)]
  }
}

const placeAt = (scoredAt: number, at: number, earlier: number[] | null): ScoredPlace => ({
  scoredAt,
  of: { at, finishedAt: at + 1000, begunAt: AT, earlier },
})

test('a turn and those to which it refers are found by their times, each in one search', async () => {
  const traffic = new Traffic()
  await traffic.others(0, HOUR)
  const [first] = await traffic.turn(0, AT)
  await traffic.others(AT + 1, AT + HOUR)
  const [second] = await traffic.turn(1, AT + HOUR)
  await traffic.others(AT + HOUR + 1, AT + 2 * HOUR)
  const [third, position] = await traffic.turn(2, AT + 2 * HOUR)
  await traffic.others(AT + 2 * HOUR + 1, AT + 3 * HOUR)
  traffic.places.set(third, placeAt(AT + 3 * HOUR, AT + 2 * HOUR, [AT, AT + HOUR]))
  deepEqual(await traffic.reader.promptIds(third), [0, 100, 1, 101, 2])
  deepEqual(
    traffic.searches.map(({ from }) => from),
    [{ time: AT + 2 * HOUR }, { time: AT }, { time: AT + HOUR }],
  )
  deepEqual(await traffic.finder.positionOf(third), position)
  for (const turn of [first, second]) equal((await traffic.finder.positionOf(turn)) === undefined, false)
  equal(traffic.searches.length, 3, 'positions are remembered')
})

test('turns before one whose score does not name them are found within its session', async () => {
  const traffic = new Traffic()
  await traffic.turn(0, AT)
  await traffic.turn(1, AT + HOUR)
  const [third] = await traffic.turn(2, AT + 2 * HOUR)
  traffic.places.set(third, placeAt(AT + 3 * HOUR, AT + 2 * HOUR, null))
  deepEqual(await traffic.reader.promptIds(third), [0, 100, 1, 101, 2])
  deepEqual(
    traffic.searches.map(({ from }) => from),
    [{ time: AT + 2 * HOUR }, { time: AT }],
  )
})

test('a turn whose score is of an earlier build is found in the hour before the score, else from the start of the log', async () => {
  const traffic = new Traffic()
  const [early, position] = await traffic.turn(0, AT)
  await traffic.others(AT + 1, AT + 3 * HOUR)
  traffic.places.set(early, { scoredAt: AT + 60_000, of: null })
  deepEqual(await traffic.finder.positionOf(early), position)
  const again = new TurnFinder(traffic.log, () => ({ scoredAt: AT + 3 * HOUR, of: null }))
  deepEqual(await again.positionOf(early), position)
  deepEqual(
    traffic.searches.map(({ from }) => from),
    [{ time: AT + 60_000 - HOUR }],
  )
})

test('a turn that was imported long after its time, and one of a gateway whose clock is an hour behind, are found', async () => {
  for (const late of [48 * HOUR, HOUR]) {
    const traffic = new Traffic()
    await traffic.others(AT - 2 * HOUR, AT + HOUR)
    await traffic.others(AT + late - HOUR, AT + late)
    const [turn, position] = await traffic.turn(0, AT)
    await traffic.others(AT + late + 1, AT + late + HOUR)
    traffic.places.set(turn, placeAt(AT + late + 1000, AT, []))
    deepEqual(await traffic.finder.positionOf(turn), position)
  }
})

test('a turn that the log does not have costs few searches, and a reader says so', async () => {
  const traffic = new Traffic()
  await traffic.others(AT, AT + HOUR)
  traffic.places.set(turnNamed('s', 'none'), placeAt(AT + HOUR, AT, null))
  await rejects(traffic.reader.record(turnNamed('s', 'none')), ({ code }: InstarError) => code === 'unknown_turn')
  equal(traffic.searches.length, 4)
})

test('one record of a clock that was a year ahead hides none of the turns after it', async () => {
  const traffic = new Traffic()
  const year = 365 * 24 * HOUR
  const [first] = await traffic.turn(0, AT)
  await traffic.others(AT + year, AT + year + 60_000)
  const [second] = await traffic.turn(1, AT + HOUR)
  await traffic.others(AT + HOUR + 1, AT + 2 * HOUR)
  const [third, position] = await traffic.turn(2, AT + 2 * HOUR)
  await traffic.others(AT + 2 * HOUR + 1, AT + 3 * HOUR)
  traffic.places.set(third, placeAt(AT + 2 * HOUR + 60_000, AT + 2 * HOUR, [AT, AT + HOUR]))
  deepEqual(await traffic.finder.positionOf(third), position)
  deepEqual(await traffic.reader.promptIds(third), [0, 100, 1, 101, 2])
  for (const turn of [first, second]) equal((await traffic.finder.positionOf(turn)) === undefined, false)
})

test('where times do not tell, the last part of the partition is searched first, and what is before the time of the turn is not', async () => {
  const traffic = new Traffic()
  const year = 365 * 24 * HOUR
  await traffic.others(AT - 2 * HOUR, AT)
  await traffic.others(AT + year, AT + year + 60_000)
  const [turn, position] = await traffic.turn(0, AT)
  await traffic.others(AT + 1, AT + LAST_PART * 60_000)
  traffic.places.set(turn, placeAt(AT + 1000, AT, []))
  deepEqual(await traffic.finder.positionOf(turn), position)
  const end = (await traffic.log.ends(['turns'])).turns![0]!
  deepEqual(
    traffic.searches.slice(-2).map(({ from, to }) => [from, to]),
    [
      [{ turns: { 0: end - LAST_PART } }, { turns: { 0: end } }],
      [{ turns: { 0: 120 } }, { turns: { 0: end - LAST_PART } }],
    ],
  )
})

test('of a turn that is there twice the first record counts, and another session names none of it', async () => {
  const traffic = new Traffic()
  const [turn, first] = await traffic.turn(0, AT)
  await traffic.turn(0, AT)
  const forged = captured({ session: 'o', messages: [{ role: 'user', content: 'x' }], answer: 'y', at: AT })
  await traffic.add({ ...forged, turn: turnNamed('s', 'other') })
  traffic.places.set(turn, placeAt(AT + 1, AT, []))
  deepEqual(await traffic.finder.positionOf(turn), first)
  equal(await traffic.finder.positionOf(turnNamed('s', 'other')), undefined)
})

test('positions in memory are limited', async () => {
  const traffic = new Traffic()
  const records = Array.from({ length: MOST_FOUND + 10 }, (_, n) =>
    encodeEvent(
      captured({ session: 's', messages: [{ role: 'user', content: `${n}` }], answer: 'y', at: AT, name: `${n}` }),
    ),
  )
  await traffic.log.append(records)
  equal(await traffic.finder.positionOf(turnNamed('s', 'none')), undefined)
  equal(traffic.finder.size, MOST_FOUND)
})

test('of a log that was cut, a turn that it holds is found, and one that is gone is unknown', async () => {
  const traffic = new Traffic()
  const [first] = await traffic.turn(0, AT)
  await traffic.others(AT + 1, AT + HOUR)
  const [second] = await traffic.turn(1, AT + HOUR)
  await traffic.others(AT + HOUR + 1, AT + 2 * HOUR)
  const [third, position] = await traffic.turn(2, AT + 2 * HOUR)
  traffic.places.set(third, placeAt(AT + 2 * HOUR + 60_000, AT + 2 * HOUR, [AT + HOUR]))
  traffic.places.set(second, placeAt(AT + HOUR + 60_000, AT + HOUR, null))
  const starts = { turns: { 0: position.offset - 1 } }
  await allow(traffic.log, starts)
  await traffic.log.cut!(starts)
  deepEqual(await traffic.finder.positionOf(third), position)
  deepEqual([await traffic.finder.positionOf(second), await traffic.finder.positionOf(first)], [undefined, undefined])
  await rejects(traffic.reader.promptIds(third), { code: 'unknown_turn' })
  equal(await ifReadable(() => traffic.reader.promptIds(third)), null)
})

test('a turn is found also where the searches of others push its position out of memory', async () => {
  const traffic = new Traffic()
  await traffic.turn(0, AT)
  const [second, position] = await traffic.turn(1, AT + HOUR)
  traffic.places.set(second, placeAt(AT + HOUR + 60_000, AT + HOUR, [AT]))
  const others = Array.from({ length: MOST_FOUND + 10 }, (_, n) =>
    captured({ session: 'o', messages: [{ role: 'user', content: `${n}` }], answer: 'y', at: AT, name: `${n}` }),
  )
  await traffic.log.append(others.map((event) => encodeEvent(event)))
  const finder: TurnFinder = new TurnFinder(
    logWith(traffic.log, {
      async *read(topic, options) {
        const { key, from } = options ?? {}
        // While the earlier turn is searched for.
        if (key === 's' && from && 'time' in from && from.time === AT) await finder.positionOf(turnNamed('o', 'none'))
        yield* traffic.log.read(topic, options)
      },
    }),
    (turn) => traffic.places.get(turn),
  )
  deepEqual(await finder.positionOf(second), position)
})
