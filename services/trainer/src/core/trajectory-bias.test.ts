/**
 * The expectation of the policy gradient over episodes of different lengths, exact, by enumeration. At each turn a
 * policy with one parameter θ goes on with probability p = σ(θ), at most TURNS turns; an episode of T turns has the
 * outcome O(T). The derivation is in docs/learning.md.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { advantages, combine, type RewardedTurn } from './baseline.ts'

const TURNS = 3
const EPISODES = 4
const WEIGHT = 0.5

/** Probability of T turns, and d log π / dθ of each of them; the last possible turn is no choice. */
const chance = (p: number, turns: number): number => p ** (turns - 1) * (turns < TURNS ? 1 - p : 1)
const scoreFunction = (p: number, turns: number): number[] =>
  Array.from({ length: turns }, (_, t) => (t + 1 < turns ? 1 - p : t + 1 < TURNS ? -p : 0))

const LENGTHS = Array.from({ length: TURNS }, (_, t) => t + 1)
/** All combinations of `count` lengths. */
const combinations = (count: number): number[][] =>
  count === 0 ? [[]] : combinations(count - 1).flatMap((rest) => LENGTHS.map((turns) => [turns, ...rest]))

/** d E[O] / dθ. */
const trueGradient = (p: number, outcome: (turns: number) => number): number =>
  LENGTHS.reduce(
    (sum, turns) => sum + chance(p, turns) * outcome(turns) * scoreFunction(p, turns).reduce((a, b) => a + b, 0),
    0,
  )

type Estimator = (episodes: readonly number[], outcome: (turns: number) => number) => number[][]

/** E of the mean over a group's episodes of Σ_t A_t · d log π(a_t) / dθ. */
const expected = (p: number, outcome: (turns: number) => number, estimate: Estimator): number =>
  combinations(EPISODES).reduce((sum, episodes) => {
    const chanceOf = episodes.reduce((product, turns) => product * chance(p, turns), 1)
    const advantage = estimate(episodes, outcome)
    const gradient = episodes.reduce(
      (total, turns, e) =>
        total + scoreFunction(p, turns).reduce((all, score, t) => all + (advantage[e]?.[t] ?? 0) * score, 0),
      0,
    )
    return sum + (chanceOf * gradient) / EPISODES
  }, 0)

/** The trainer's own, for episodes of one task whose turns all have the own score `turnScore`. */
const ours =
  (turnScore: number | null, task = 't'): Estimator =>
  (episodes, outcome) => {
    const items = episodes.flatMap((turns, e) =>
      Array.from({ length: turns }, (): RewardedTurn => {
        const value = outcome(turns)
        const reward = combine(turnScore, value, WEIGHT)
        return {
          subject: 's',
          key: null,
          group: `${e}`,
          reward,
          episode: { session: `${e}`, task, outcome: value, turnScore },
        }
      }),
    )
    const before = new Map([
      ['s', { value: 0.25, count: 9 }],
      ['outcome s', { value: 0.125, count: 9 }],
    ])
    const all = advantages(items, before, 2, WEIGHT).items.map(({ advantage }) => advantage)
    let at = 0
    return episodes.map((turns) => all.slice(at, (at += turns)))
  }

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length
/** The mean over the group's turns: an episode counts once for each of its turns. */
const turnMean: Estimator = (episodes, outcome) => {
  const baseline = mean(episodes.flatMap((turns) => Array.from({ length: turns }, () => outcome(turns))))
  return episodes.map((turns) => Array.from({ length: turns }, () => outcome(turns) - baseline))
}
/**
 * OpenClaw-RL's step_wise: z-scores within (group, turn index); a lone turn keeps its reward, constant buckets are
 * dropped.
 */
const perIndex: Estimator = (episodes, outcome) =>
  episodes.map((turns) =>
    Array.from({ length: turns }, (_, t) => {
      const bucket = episodes.filter((other) => other > t).map(outcome)
      if (bucket.length === 1) return outcome(turns)
      const centre = mean(bucket)
      const deviation = Math.sqrt(mean(bucket.map((value) => (value - centre) ** 2)))
      return deviation < 1e-6 ? 0 : (outcome(turns) - centre) / (deviation + 1e-6)
    }),
  )

const OUTCOMES: Readonly<Record<string, (turns: number) => number>> = {
  'long is good': (turns) => turns - 2,
  'short is good': (turns) => 2 - turns,
  'two turns are best': (turns) => (turns === 2 ? 1 : -1),
  'all are equal': () => 1,
}
const near = (actual: number, wanted: number, what: string): void =>
  assert.ok(Math.abs(actual - wanted) < 1e-12, `${what}: ${actual}, not ${wanted}`)

test('the expected gradient of episodes of a task is (1 − 1/n) of that of the expected outcome, with and without own scores', () => {
  for (const p of [0.2, 0.5, 0.8])
    for (const [name, outcome] of Object.entries(OUTCOMES))
      for (const turnScore of [null, 1, -1])
        near(
          expected(p, outcome, ours(turnScore)),
          (1 - 1 / EPISODES) * trueGradient(p, outcome),
          `${name}, p ${p}, own scores ${turnScore}`,
        )
})

test('an episode that is compared with no other has the gradient of the expected outcome', () => {
  for (const p of [0.2, 0.8])
    for (const [name, outcome] of Object.entries(OUTCOMES))
      near(expected(p, outcome, ours(1, '')), trueGradient(p, outcome), `${name}, p ${p}`)
})

test('where one turn and three turns are equally good, a mean over turns and z-scores per turn index still favour a length', () => {
  // At p = 1/2, E[O] does not change with θ: dE/dp = −O(1) + (1 − 2p)·O(2) + 2p·O(3) = 0.
  const middle = OUTCOMES['two turns are best']!
  const worst = (turns: number): number => -middle(turns)
  const of = (estimate: Estimator): string[] =>
    [middle, worst].map((outcome) => expected(0.5, outcome, estimate).toFixed(4))
  near(trueGradient(0.5, middle), 0, 'true')
  assert.deepEqual(of(ours(null)), ['0.0000', '0.0000'])
  assert.deepEqual(of(ours(1)), ['0.0000', '0.0000'])
  assert.deepEqual(of(turnMean), ['0.0293', '-0.0293'])
  assert.deepEqual(of(perIndex), ['0.0360', '-0.0360'])
})

test('groups of the episodes that ended first compare short ones with short ones', () => {
  const p = 0.5
  const outcome = OUTCOMES['long is good']!
  const pairs =
    (order: (episodes: readonly number[]) => number[]): Estimator =>
    (episodes, of) => {
      const places = order(episodes)
      const result: number[][] = []
      for (let at = 0; at < places.length; at += 2) {
        const two = places.slice(at, at + 2)
        const own = ours(null)(
          two.map((e) => episodes[e]!),
          of,
        )
        for (const [i, e] of two.entries()) result[e] = own[i]!
      }
      return result
    }
  const begun = pairs((episodes) => [...episodes.keys()])
  const ended = pairs((episodes) => [...episodes.keys()].sort((a, b) => episodes[a]! - episodes[b]!))
  near(expected(p, outcome, begun), 0.5 * trueGradient(p, outcome), 'in the order of their beginnings')
  near(expected(p, outcome, ended) / trueGradient(p, outcome), 0.23828125, 'in the order of their ends')
})

test('the mean over the tokens of the batch, by which the loss divides, leaves a bias that falls with the episodes of a batch', () => {
  const middle = OUTCOMES['two turns are best']!
  const divided = (count: number): string =>
    combinations(count)
      .reduce((sum, episodes) => {
        const chanceOf = episodes.reduce((product, turns) => product * chance(0.5, turns), 1)
        const own = ours(null)(episodes, middle)
        const gradient = episodes.reduce(
          (total, turns, e) =>
            total + scoreFunction(0.5, turns).reduce((all, score, t) => all + (own[e]?.[t] ?? 0) * score, 0),
          0,
        )
        return sum + (chanceOf * gradient) / episodes.reduce((a, b) => a + b, 0)
      }, 0)
      .toFixed(4)
  assert.deepEqual([2, 4, 6].map(divided), ['0.0167', '0.0146', '0.0112'])
})
