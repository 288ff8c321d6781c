/** Multinomial logistic regression on sparse inputs: AdaGrad, dropout of features and of whole groups, L2. Seeded. */
import { GROUPS } from '../../src/core/reactions/features.ts'
import { softmax, type Input } from '../../src/core/reactions/model.ts'

export type Example = { input: Input; target: number; weight: number }
type LearnSettings = {
  /** Rows of weights; the row behind the last is the bias. */
  rows: number
  classes: number
  epochs: number
  rate: number
  /** Weight of the L2 penalty, per example. */
  decay: number
  /** Share of features that are left out of an example in an epoch. */
  dropout: number
  /** Share of examples that lose a whole group in an epoch. */
  groupDropout: number
  /** Share of the target's probability given to all classes. */
  smoothing: number
  seed: number
}

export const seeded = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Weights, [rows + 1][classes]; the last row is the bias. */
export const learn = (examples: readonly Example[], settings: LearnSettings): Float32Array => {
  const { rows: count, classes, epochs, rate, decay, dropout, groupDropout, smoothing } = settings
  const random = seeded(settings.seed)
  const weights = new Float32Array((count + 1) * classes)
  const squares = new Float32Array((count + 1) * classes)
  const order = Uint32Array.from(examples, (_, i) => i)
  const p = new Float64Array(classes)
  const step = (at: number, gradient: number): void => {
    squares[at]! += gradient * gradient
    weights[at]! -= (rate * gradient) / (Math.sqrt(squares[at]!) + 1e-4)
  }
  const bias = count * classes
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    for (let i = order.length - 1; i > 0; i -= 1) {
      const j = Math.floor(random() * (i + 1))
      ;[order[i], order[j]] = [order[j]!, order[i]!]
    }
    for (const index of order) {
      const { input, target, weight } = examples[index]!
      const { rows, values, groups } = input
      const without = random() < groupDropout ? Math.floor(random() * GROUPS.length) : -1
      const kept: number[] = []
      for (let c = 0; c < classes; c += 1) p[c] = weights[bias + c]!
      for (let f = 0; f < rows.length; f += 1) {
        if (groups[f] === without || random() < dropout) continue
        kept.push(f)
        const at = rows[f]! * classes
        for (let c = 0; c < classes; c += 1) p[c]! += (weights[at + c]! * values[f]!) / (1 - dropout)
      }
      softmax(p)
      for (let c = 0; c < classes; c += 1) {
        const wanted = (c === target ? 1 - smoothing : 0) + smoothing / classes
        p[c] = (p[c]! - wanted) * weight
      }
      for (let c = 0; c < classes; c += 1) step(bias + c, p[c]!)
      for (const f of kept) {
        const at = rows[f]! * classes
        const value = values[f]!
        for (let c = 0; c < classes; c += 1) step(at + c, p[c]! * value + decay * weights[at + c]!)
      }
    }
  }
  return weights
}

export const logitsOf = (weights: Float32Array, classes: number, { rows, values }: Input): Float64Array => {
  const logits = new Float64Array(classes)
  const bias = weights.length - classes
  for (let c = 0; c < classes; c += 1) logits[c] = weights[bias + c]!
  for (let f = 0; f < rows.length; f += 1)
    for (let c = 0; c < classes; c += 1) logits[c]! += weights[rows[f]! * classes + c]! * values[f]!
  return logits
}
