/**
 * Versions change under load: 100 continuous streams on a gateway in its own process, with versions published on its
 * log and rolled back through its admin API. No stream fails, and each has one version. A minute of it with latencies:
 * `npm run bench -- moves`.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { moving } from './moves/moving.ts'

const PUBLISHES = 8
const ROLLBACKS = 2

test(
  `100 streams during ${PUBLISHES} publications and ${ROLLBACKS} rollbacks end without a failure, each on the version of its header`,
  { timeout: 150_000 },
  async (t) => {
    const { streams, moves, mixed } = await moving([{ seconds: 8, publishes: PUBLISHES, rollbacks: ROLLBACKS }])
    t.diagnostic(
      `${streams.length} streams of ${mixed.versions} versions, ${mixed.tokens} tokens, at most ${mixed.worst.toExponential(1)} nats off; under a neighbouring version at least ${mixed.other.toFixed(2)}`,
    )
    t.diagnostic(
      `served after ${moves.map(({ servedMs, rollback }) => `${servedMs.toFixed(0)}${rollback ? ' (rollback)' : ''}`).join(', ')} ms`,
    )
    deepEqual(
      streams.flatMap(({ fault }) => fault ?? []),
      [],
    )
    deepEqual(mixed.wrong, [])
    deepEqual(
      [moves.filter(({ rollback }) => !rollback).length, moves.filter(({ rollback }) => rollback).length],
      [PUBLISHES, ROLLBACKS],
    )
    ok(
      mixed.streams === streams.length && streams.length >= 100,
      `${mixed.streams} of ${streams.length} streams were looked at`,
    )
    ok(mixed.versions >= 3, `${mixed.versions} versions spoke`)
    ok(mixed.other > 0.1 && Number.isFinite(mixed.other), `another version would have been ${mixed.other} nats off`)
  },
)
