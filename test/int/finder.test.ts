/** Turns are found by their times on Kafka, also behind the record of a clock that was ahead. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent } from '@instar/events'
import { TurnFinder, type ScoredPlace } from '@instar/log'
import { kafkaLogs } from '../kit/kafka-logs.ts'
import { captured } from '../kit/scored-history.ts'

const SESSIONS = 40
const DAY = 86_400_000

const turnOf = (session: string, at: number) =>
  captured({ session, messages: [{ role: 'user', content: session }], answer: 'y', at })

test('a turn is found behind a record of a clock that was a day ahead, and one that is not there is missing', async () => {
  const { open, close } = await kafkaLogs('f')
  try {
    const log = await open('finder')
    const begun = Date.now()
    const sessions = Array.from({ length: SESSIONS }, (_, n) => n)
    // In every partition.
    await log.append(sessions.map((n) => encodeEvent(turnOf(`ahead${n}`, begun + DAY))))
    const turns = sessions.map((n) => turnOf(`s${n}`, begun + n))
    const appended = await log.append(turns.map((turn) => encodeEvent(turn)))
    const missing = turnOf('none', begun)
    const places = new Map<string, ScoredPlace>(
      [...turns, missing].map(({ turn, at, finishedAt }) => [
        turn,
        { scoredAt: at + 1_000, of: { at, finishedAt, begunAt: at, earlier: [] } },
      ]),
    )
    const finder = new TurnFinder(log, (turn) => places.get(turn))
    const found = await Promise.all(turns.map(({ turn }) => finder.positionOf(turn)))
    assert.deepEqual(
      found,
      appended.map(({ partition, offset }) => ({ partition, offset })),
    )
    assert.equal(await finder.positionOf(missing.turn), undefined)
  } finally {
    await close()
  }
})
