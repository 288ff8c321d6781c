/**
 * What the probe sends and how it reads the answers. With beta1 = beta2 = 0 and an epsilon far above the gradient, Adam
 * is gradient descent with the rate learningRate / epsilon, so the rise of a row's log-probs after one step on their sum
 * is proportional to the gradient that the server used: rate · g_used · g_row.
 */
import { InstarError } from '@instar/events/errors'
import type { AdamParams, Reduction, ScoreRow, TrainRow } from '../port.ts'

/** Small ids, which every tokenizer has; the second half of LONG is no part of what is trained on. */
const IDS = [7, 19, 23, 11, 29, 13, 31, 17, 37, 5, 41, 3, 43]
const row = (ids: readonly number[]): ScoreRow => ({ tokens: ids.slice(0, -1), targets: ids.slice(1) })
export const SHORT = row(IDS.slice(0, 7))
export const LONG = row(IDS)
export const PROBE_ROWS: readonly ScoreRow[] = [SHORT, LONG]

/** Epsilon of the probe's steps: gradients of a row are far below. */
export const EPSILON = 1e6
export const descent = (rate: number, gradClipNorm = 0): AdamParams => ({
  learningRate: rate * EPSILON,
  beta1: 0,
  beta2: 0,
  epsilon: EPSILON,
  weightDecay: 0,
  gradClipNorm,
})

/** A row that is trained on its first `count` targets, each with `advantage`. */
const trained = (scored: ScoreRow, logprobs: Float32Array, count: number, advantage: number): TrainRow => ({
  ...scored,
  logprobs: [...logprobs],
  advantages: scored.targets.map((_, at) => (at < count ? advantage : 0)),
})

/** Under each reduction, the gradient of the scenario as a share of that of `alone`. */
export const SCENARIOS = {
  alone: { sum: 1, sequence_mean: 1, token_mean: 1 },
  /** Beside a row of twice the length without advantages. */
  beside: { sum: 1, sequence_mean: 1 / 2, token_mean: 1 / 3 },
  /** The same tokens and six more without advantages. */
  longer: { sum: 1, sequence_mean: 1 / 2, token_mean: 1 / 2 },
  doubled: { sum: 2, sequence_mean: 2, token_mean: 2 },
} as const satisfies Record<string, Record<Reduction, number>>
export type Scenario = keyof typeof SCENARIOS

/** `logprobs`: of SHORT and LONG under the present weights. */
export const scenarioRows = (scenario: Scenario, [short, long]: readonly Float32Array[]): TrainRow[] => {
  if (!short || !long) return []
  const count = SHORT.targets.length
  if (scenario === 'longer') return [trained(LONG, long, count, 1)]
  const first = trained(SHORT, short, count, scenario === 'doubled' ? 2 : 1)
  return scenario === 'beside' ? [first, trained(LONG, long, 0, 0)] : [first]
}

/** Nats by which the log-probs of SHORT's targets rose. */
export const rise = (before: readonly Float32Array[], after: readonly Float32Array[]): number =>
  SHORT.targets.reduce((sum, _, at) => sum + (after[0]?.[at] ?? 0) - (before[0]?.[at] ?? 0), 0)

/** Rises between which a step is linear enough, and far above the noise of 16-bit weights. */
const RISE_MIN = 0.03
const RISE_MAX = 0.4
const RISE_AIM = 0.1
/** First rate; the next one follows from the rise, which is proportional to it. */
export const FIRST_RATE = 1e-5
const GROWTH_MAX = 30
export const RATES_MAX = 14

/** The rate to try next, or null if this one will do. */
export const nextRate = (rate: number, risen: number): number | null => {
  if (risen >= RISE_MIN && risen <= RISE_MAX) return null
  const factor = risen <= 0 ? GROWTH_MAX : RISE_AIM / risen
  return rate * Math.min(GROWTH_MAX, Math.max(1 / GROWTH_MAX, factor))
}

/** A measured ratio belongs to an expected one within this factor. */
const TOLERANCE = 1.2

const near = (found: number, expected: number): boolean => found > expected / TOLERANCE && found < expected * TOLERANCE

export type Shares = Readonly<Record<Scenario, number>>

/**
 * `norms`: of each scenario, the norm of the gradient that the server reports, as a share of that of `alone`; null: it reports
 * none. `rises`: the same from the log-probs, which a server that computes in bfloat16 rounds to 1/16 nat. The norms decide
 * where they fit a reduction. Throws `trainer_mismatch` if neither fits one.
 */
export const reductionOf = (rises: Shares, norms: Shares | null = null): Reduction => {
  const scenarios = Object.keys(SCENARIOS) as Scenario[]
  const fittingTo = (shares: Shares): Reduction | undefined =>
    (['sum', 'sequence_mean', 'token_mean'] as const).find((reduction) =>
      scenarios.every((scenario) => near(shares[scenario], SCENARIOS[scenario][reduction])),
    )
  const fitting = (norms && fittingTo(norms)) ?? fittingTo(rises)
  if (fitting) return fitting
  const shares = rises
  const found = scenarios.map((scenario) => `${scenario} ${shares[scenario].toFixed(3)}`).join(', ')
  throw new InstarError(
    'trainer_mismatch',
    `The training server reduces losses neither by sum nor by the mean of sequences or tokens (${found})`,
    { shares },
  )
}

/** A clip at a tenth of the gradient's norm makes the rise a tenth; half of it decides. */
export const isClipped = (alone: number, clipped: number): boolean => clipped < alone / 2
/** Of the gradient that the server used, from the rise of SHORT alone; an estimate, since the reduction divides once. */
export const clipFor = (rate: number, risen: number, reduction: Reduction): number => {
  const divisor = reduction === 'sum' ? 1 : SHORT.targets.length
  return Math.sqrt(Math.max(risen, 0) / rate / divisor) / 10
}

export const sameLogprobs = (a: readonly Float32Array[], b: readonly Float32Array[], tolerance: number): boolean =>
  a.length === b.length &&
  a.every((values, at) => {
    const other = b[at]
    return (
      values.length === other?.length &&
      values.every((value, index) => Math.abs(value - (other[index] ?? 0)) <= tolerance)
    )
  })

/**
 * Whether SHORT's targets have the same log-probs at the beginning of LONG (`logprobs`: of SHORT and LONG); that their
 * gradient is the same is what the scenario `longer` shows, without which there is no reduction.
 */
export const sharesPrefixes = ([short, long]: readonly Float32Array[]): boolean =>
  short !== undefined && long !== undefined && sameLogprobs([short], [long.slice(0, short.length)], PREFIX_TOLERANCE)
/** Nats; rows of other lengths are summed in another order, and weights may have 16 bits. */
const PREFIX_TOLERANCE = 0.01

/** Log-probs of a resumed model may differ by this much, in nats: a server may save in 16 bits. */
export const RESUME_TOLERANCE = 0.01
/** Log-probs of a model that a step has moved differ by more than this, in nats. */
export const LEFT_TOLERANCE = 1e-5

/** Loss functions that servers are known to have. */
export const LOSSES = [
  'cispo',
  'cross_entropy',
  'dppo',
  'dro',
  'gspo',
  'importance_sampling',
  'ppo',
  'stable_reinforce',
]
