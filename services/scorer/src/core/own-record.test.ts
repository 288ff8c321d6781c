/** Opinions that contradict what the same person said before of answers of that kind. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { subjectOfKey, subjectOfSession } from '@instar/events'
import { chance, integer, seeded } from '../../../../models/tiny/recipe/random.ts'
import { judgeTurn, reactionsJudge } from '../app.ts'
import type { Evidence, Judged } from './judgement.ts'
import {
  foldRecord,
  isContradicted,
  MOST_OPINIONS,
  MOST_PEOPLE,
  opinionIn,
  withRecord,
  type RecordTable,
} from './own-record.ts'

const TURN = { policy: 'policy', key: null, session: 's' }
const SHORT = 'It is 12.'
const LONG = 'The answer is twelve, since five and seven more are twelve in all.'
const textOf = (words: number): string => Array(words).fill('word').join(' ')

type Said = { next?: string; comment?: string; value?: number }
const judgementOf = async (answer: string, { next, comment, value }: Said): Promise<Judged> => {
  const evidence: Evidence = {
    turn: 't',
    request: 'What is 5 plus 7?',
    answer,
    calls: false,
    next: next === undefined ? null : { user: next, tools: '' },
  }
  const feedback =
    value === undefined ? null : { id: 'f', record: 'f', value, at: 0, comment: comment === undefined ? null : comment }
  return judgeTurn([reactionsJudge({ movedOn: null })], { feedback }, evidence, new AbortController().signal)
}

class Line {
  readonly records: RecordTable = new Map()
  #offset = 0
  readonly #least: number
  constructor(least = 4) {
    this.#least = least
  }
  /** The reward of explicit feedback or of words, or why it is skipped. */
  async say(subject: string, answer: string, said: Said): Promise<number | string | null> {
    const judgement = await judgementOf(answer, said)
    const { reward, reason, verdicts } = withRecord(this.records, { ...TURN, subject }, judgement, this.#least)
    foldRecord(this.records, { policy: TURN.policy, verdicts }, this.#offset++)
    return reward ?? reason
  }
  /** Praise of six long answers, complaints about six short ones. */
  async known(subject: string): Promise<this> {
    for (let i = 0; i < 6; i += 1) {
      await this.say(subject, LONG, { value: 1 })
      await this.say(subject, SHORT, { value: -1 })
    }
    return this
  }
}

describe('requests that name no user', () => {
  for (const [which, subject, key] of [
    ['without a key', (session: string) => subjectOfSession(session), null],
    ['of one key', () => subjectOfKey('k'), 'k'],
  ] as const)
    test(`${which} may be of many people: they have no record, and nothing of theirs is skipped`, async () => {
      const records: RecordTable = new Map()
      for (let i = 0; i < 50; i += 1) {
        const [long, minority] = [i % 2 === 0, i % 5 === 4]
        const judgement = await judgementOf(long ? LONG : SHORT, { value: long === minority ? -1 : 1 })
        const session = `s${i}`
        const said = withRecord(records, { policy: 'policy', key, session, subject: subject(session) }, judgement, 4)
        foldRecord(records, { policy: 'policy', verdicts: said.verdicts }, i)
        assert.deepEqual([said.reason, said.reward], [null, long === minority ? -1 : 1])
      }
      assert.equal(records.size, 0)
    })
})

describe('feedback without words against the record of its person', () => {
  test('is skipped, +1 and -1 alike; without the guard it counts', async () => {
    const line = await new Line().known('anna')
    assert.equal(await line.say('anna', SHORT, { value: 1 }), 'contradicted')
    assert.equal(await line.say('anna', LONG, { value: -1 }), 'contradicted')
    assert.equal(await line.say('anna', LONG, { value: 1 }), 1)
    assert.equal(await line.say('anna', SHORT, { value: -1 }), -1)
    const unguarded = await new Line(0).known('anna')
    assert.equal(await unguarded.say('anna', SHORT, { value: 1 }), 1)
    assert.equal(await unguarded.say('anna', LONG, { value: -1 }), -1)
  })

  test('counts once it repeats: a mind that changed loses two opinions of each kind', async () => {
    const line = await new Line().known('anna')
    const changed = []
    for (let i = 0; i < 4; i += 1) changed.push(await line.say('anna', SHORT, { value: 1 }))
    assert.deepEqual(changed, ['contradicted', 'contradicted', 1, 1])
  })

  test('counts where it is in words, or its person names a value: it may be about content', async () => {
    const line = await new Line().known('anna')
    assert.equal(await line.say('anna', LONG, { next: 'No, that is wrong.' }), -1)
    assert.equal(await line.say('anna', SHORT, { next: 'Thanks, perfect!' }), 1)
    assert.equal(await line.say('anna', LONG, { value: -1, next: 'No, the right answer is 14.' }), -1)
    assert.equal(await line.say('anna', LONG, { value: -1, comment: 'Not what I meant.' }), -1)
  })
})

describe('nothing is skipped', () => {
  test('of a person with few opinions, or with those of others', async () => {
    const line = await new Line().known('anna')
    assert.equal(await line.say('ben', SHORT, { value: 1 }), 1)
    const few = new Line()
    for (let i = 0; i < 3; i += 1) {
      await few.say('anna', LONG, { value: 1 })
      await few.say('anna', SHORT, { value: -1 })
    }
    assert.equal(await few.say('anna', SHORT, { value: 1 }), 1)
  })

  test('of two people with opposite wishes', async () => {
    const line = await new Line().known('anna')
    for (let i = 0; i < 8; i += 1) {
      assert.equal(await line.say('ben', SHORT, { value: 1 }), 1)
      assert.equal(await line.say('ben', LONG, { value: -1 }), -1)
    }
  })

  test('where a person only complains: the first praise counts', async () => {
    const line = new Line()
    for (let i = 0; i < 20; i += 1) await line.say('anna', i % 2 === 0 ? SHORT : LONG, { value: -1 })
    assert.equal(await line.say('anna', LONG, { value: 1 }), 1)
  })

  test('of what tools return', async () => {
    const evidence: Evidence = {
      request: 'Run the tests.',
      answer: '',
      calls: true,
      next: { user: '', tools: '3 passed' },
    }
    const { measured } = await judgeTurn(
      [reactionsJudge({ movedOn: null })],
      { feedback: null },
      evidence,
      new AbortController().signal,
    )
    assert.equal(measured, undefined)
  })
})

/** Opinions of 200 people, 64 of each, and then one more: the share of those that are skipped, by whether their sign is right. */
const skippedOf = (isLiked: (words: number, random: () => number) => boolean, wrong: number) => {
  const random = seeded(11)
  const told = { right: { skipped: 0, all: 0 }, wrong: { skipped: 0, all: 0 } }
  for (let person = 0; person < 200; person += 1) {
    const opinionOn = () => {
      const words = integer(random, 2, 30)
      const isWrong = chance(random, wrong)
      return { words, form: '0000', praise: isLiked(words, random) !== isWrong, isWrong }
    }
    const record = Array.from({ length: MOST_OPINIONS }, opinionOn)
    const next = opinionOn()
    const side = told[next.isWrong ? 'wrong' : 'right']
    side.all += 1
    if (isContradicted(record, next)) side.skipped += 1
  }
  return { right: told.right.skipped / told.right.all, wrong: told.wrong.skipped / told.wrong.all }
}

test('of a fifth of wrong signs most are found, of right ones next to none; of a taste that is not measured few', () => {
  const byLength = skippedOf((words) => words >= 12, 0.2)
  assert.ok(byLength.wrong > 0.6 && byLength.right < 0.05, JSON.stringify(byLength))
  const honest = skippedOf((words) => words >= 12, 0)
  assert.equal(honest.right, 0)
  const rare = skippedOf((_words, random) => random() < 0.1, 0)
  assert.equal(rare.right, 0)
  const even = skippedOf((_words, random) => random() < 0.5, 0)
  assert.ok(even.right < 0.1, JSON.stringify(even))
})

test('the verdict holds an opinion in a note; the record of a person, and the people of a policy, are bounded', async () => {
  const line = new Line(0)
  const judgement = await judgementOf('- one\n- two!', { value: 1 })
  const { verdicts } = withRecord(line.records, { ...TURN, subject: 'anna' }, judgement, 4)
  assert.deepEqual({ ...opinionIn(verdicts), subject: '' }, { words: 2, form: '1010', praise: true, subject: '' })
  assert.match(verdicts.at(-1)!.note, /^\+ 2 1010 by [0-9a-f]{16}$/)
  for (let i = 0; i < MOST_OPINIONS + 10; i += 1) await line.say('anna', textOf(1 + (i % 9)), { value: 1 })
  assert.equal([...line.records].length, 1)
  assert.equal(line.records.get([...line.records][0]![0])!.opinions.length, MOST_OPINIONS)
  const note = (n: number) => [
    { judge: 'record', value: null, note: `+ 3 0000 by ${n.toString(16).padStart(16, '0')}` },
  ]
  for (let n = 0; n <= MOST_PEOPLE; n += 1) foldRecord(line.records, { policy: 'policy', verdicts: note(n) }, 1000 + n)
  assert.ok(line.records.size <= MOST_PEOPLE, String(line.records.size))
})
