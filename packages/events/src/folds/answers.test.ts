import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addTurn, emptySession, findAnswer, type TurnState } from './turns.ts'

const turnOf = (i: number, changes: Partial<TurnState>): TurnState =>
  ({
    turn: `s.${i}`,
    group: `g${i}`,
    candidates: 1,
    shown: true,
    digest: `d${i}`,
    answer: { strict: 'Yes.', loose: 'yes' },
    feedback: [],
    finishedAt: i,
    ...changes,
  }) as TurnState

/** The contract of `findAnswer`, from all turns. */
const expected = (
  turns: readonly TurnState[],
  key: { strict: string; loose: string },
  except: string | null,
): TurnState | undefined => {
  const allowed = turns.filter(({ shown, digest }) => shown && digest !== except)
  const strict = allowed.filter(({ answer }) => answer.strict === key.strict)
  const equal = strict.length > 0 ? strict : allowed.filter(({ answer }) => answer.loose === key.loose)
  return equal.find(({ group }) => group === equal.at(-1)!.group)
}

test('of equal answers the latest request is continued, of its candidates the first, and never the one that is asked again', () => {
  const session = emptySession('s')
  let state = 7
  const random = (count: number): number => (state = (state * 48_271) % 2_147_483_647) % count
  let found = 0
  for (let i = 0; i < 400; i += 1) {
    const request = random(12)
    // Several candidates belong to one request, and their records may be apart.
    const group = random(2) === 0 ? { group: `r${request}`, candidates: 4 } : { group: `g${i}` }
    const strict = ['a', 'A', 'b'][random(3)]!
    addTurn(
      session,
      turnOf(i, {
        ...group,
        digest: `d${request}`,
        shown: random(5) > 0,
        answer: { strict, loose: strict.toLowerCase() },
      }),
    )
    for (const key of [
      { strict: 'a', loose: 'a' },
      { strict: 'B', loose: 'b' },
      { strict: 'c', loose: 'c' },
    ])
      for (const except of [null, `d${request}`, `d${random(12)}`]) {
        const turn = findAnswer(session, key, except)
        assert.equal(turn, expected(session.turns, key, except))
        if (turn) found += 1
      }
  }
  assert.ok(found > 2000, `${found} answers were found`)
})

// With a search of all equal answers this takes longer than a file may: 32,000 turns took 133 s.
test('a session may have 100,000 equal answers', () => {
  const session = emptySession('s')
  for (let i = 0; i < 100_000; i += 1) {
    addTurn(session, turnOf(i, { digest: `d${i >> 1}` }))
    const found = findAnswer(session, { strict: 'Yes.', loose: 'yes' }, `d${i >> 1}`)
    assert.equal(found, i < 2 ? undefined : session.turns[(i & ~1) - 1])
  }
})
