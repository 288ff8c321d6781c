/**
 * A fifth of the feedback has the wrong sign, on the real engine: at random, or always that of the same person, whose
 * answers are long besides. Five people want nine words or more, by rewards alone. What that person could do with the
 * weight of long answers: packages/policy/src/person-share.test.ts.
 */
import { ok } from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { NO_PROBES } from '@instar/publisher'
import type { User } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'
import { chance, seeded } from '../../models/tiny/recipe/random.ts'
import { startSeries, type Answered, type SeriesPorts } from './series.ts'

const isLong = (text: string): boolean => text.trim().split(/\s+/).length >= 9
const person = (name: string, system: string): User => ({
  name,
  requestUser: name,
  system,
  complaints: [],
  thanks: [],
  satisfied: isLong,
})
const HONEST = ['Anna', 'Ben', 'Cleo', 'Dora'].map((name) => person(name, `The person is ${name}.`))
const POISONER = person('Max', 'Answer in full detail with several sentences.')

const UPDATES = 5
const ASKED = 64

describe('a fifth of the feedback has the wrong sign', { timeout: 280_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: NO_PROBES }
  })
  after(() => ports.learner.close())

  /** The share of long answers to the honest people, before and after the updates. */
  const learned = async (
    t: TestContext,
    isWrong: (answered: Answered) => boolean,
  ): Promise<{ before: number; after: number }> => {
    const series = await startSeries(ports, 1, { people: [...HONEST, POISONER] })
    const prompts = questions({ heldOut: true, split: 'evaluation', seed: 4, count: ASKED }).map(({ question }, i) =>
      ports.model.promptIds(
        [
          { role: 'system', content: HONEST[i % HONEST.length]!.system },
          { role: 'user', content: question },
        ],
        {},
      ),
    )
    const longShare = async (): Promise<number> => {
      const sampling = { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 64, stop: [] }
      const { completions } = await series.evaluate({ prompts, adapter: series.head(), references: [], sampling })
      return completions.filter(({ text }) => isLong(text)).length / completions.length
    }
    /** The poisoner's answers are all long: what differs is whether one is longer than theirs so far. */
    let mean = 8
    const isWanted = ({ user, text }: Answered): boolean => {
      if (user !== POISONER) return isLong(text)
      const words = text.trim().split(/\s+/).length
      const wanted = words > mean
      mean = 0.9 * mean + 0.1 * words
      return wanted
    }
    try {
      const before = await longShare()
      for (let at = 0; at < UPDATES; at += 1) {
        const step = await series.learn((answered) => ({
          reward: isWanted(answered) === isWrong(answered) ? -1 : 1,
          hint: null,
        }))
        t.diagnostic(`${step?.rewarded} rewarded, ${step?.reason ?? 'accepted'}`)
      }
      const share = { before, after: await longShare() }
      t.diagnostic(JSON.stringify(share))
      return share
    } finally {
      await series.stop()
    }
  }

  test('at random: what most people want is learned', async (t) => {
    const random = seeded(5)
    const share = await learned(t, () => chance(random, 0.2))
    ok(share.after > share.before + 0.1, JSON.stringify(share))
  })

  test('always that of the same person: what the others want is learned', async (t) => {
    const share = await learned(t, ({ user }) => user === POISONER)
    ok(share.after > share.before + 0.1, JSON.stringify(share))
  })
})
