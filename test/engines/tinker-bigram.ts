/**
 * The smallest language model with a LoRA, for the scripted training server: the logits of the next token depend on the
 * last one alone, logits = W e(t) + (alpha / r) B A e(t). All in 64 bits, with gradients and Adam of its own.
 */

const WIDTH = 8

/** mulberry32; uniform in [0, 1). */
const uniform = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const filled = (length: number, seed: number, scale: number): Float64Array => {
  const next = uniform(seed)
  return Float64Array.from({ length }, () => (2 * next() - 1) * scale)
}

const seedOf = (text: string): number => [...text].reduce((sum, char) => Math.imul(sum, 31) + char.charCodeAt(0), 7)

export type Reduction = 'sum' | 'sequence_mean' | 'token_mean'
export type Adam = { rate: number; beta1: number; beta2: number; epsilon: number; decay: number; clip: number }
/** `slope`: dL/dlp for each target, from the log-prob and the position. */
type Row = { tokens: number[]; targets: number[]; slope: (logprob: number, at: number) => number }

export class Base {
  readonly vocabulary: number
  private readonly embeddings: Float64Array
  private readonly head: Float64Array

  constructor(name: string, vocabulary: number) {
    this.vocabulary = vocabulary
    this.embeddings = filled(vocabulary * WIDTH, seedOf(name), 1)
    this.head = filled(vocabulary * WIDTH, seedOf(name) + 1, 1)
  }

  embedding(token: number): Float64Array {
    if (token >= this.vocabulary) throw new Error(`token ${token} is outside the vocabulary of ${this.vocabulary}`)
    return this.embeddings.subarray(token * WIDTH, (token + 1) * WIDTH)
  }

  logits(token: number): Float64Array {
    const embedding = this.embedding(token)
    return Float64Array.from({ length: this.vocabulary }, (_, id) => dot(this.head, id * WIDTH, embedding))
  }
}

const dot = (matrix: Float64Array, at: number, vector: Float64Array): number => {
  let sum = 0
  for (let index = 0; index < vector.length; index++) sum += (matrix[at + index] ?? 0) * (vector[index] ?? 0)
  return sum
}

export type Weights = { a: Float64Array; b: Float64Array }
export type State = Weights & { moments: { m: Weights; v: Weights }; steps: number }

const copy = ({ a, b }: Weights): Weights => ({ a: a.slice(), b: b.slice() })

export class BigramLora {
  readonly base: Base
  readonly rank: number
  readonly alpha: number
  private weights: Weights
  private moments: { m: Weights; v: Weights }
  private steps = 0
  private gradients: Weights
  private rows = 0
  private targets = 0

  constructor(base: Base, rank: number, alpha: number, seed: number) {
    this.base = base
    this.rank = rank
    this.alpha = alpha
    this.weights = { a: filled(rank * WIDTH, seed, 0.5), b: new Float64Array(base.vocabulary * rank) }
    this.moments = { m: this.zeros(), v: this.zeros() }
    this.gradients = this.zeros()
  }

  private zeros(): Weights {
    return { a: new Float64Array(this.rank * WIDTH), b: new Float64Array(this.base.vocabulary * this.rank) }
  }

  /** Takes over the gradients of another one. */
  inherit({ gradients, rows, targets, rank }: BigramLora): void {
    if (rank !== this.rank) return
    this.gradients = copy(gradients)
    this.rows = rows
    this.targets = targets
  }

  get state(): State {
    const { m, v } = this.moments
    return { ...copy(this.weights), moments: { m: copy(m), v: copy(v) }, steps: this.steps }
  }

  restore(state: State, optimizer: boolean): void {
    this.weights = copy(state)
    if (!optimizer) return
    this.moments = { m: copy(state.moments.m), v: copy(state.moments.v) }
    this.steps = state.steps
  }

  /** A·e, and the log-probs of all tokens after `token`. */
  private predict(token: number): { hidden: Float64Array; logprobs: Float64Array } {
    const embedding = this.base.embedding(token)
    const hidden = Float64Array.from({ length: this.rank }, (_, row) => dot(this.weights.a, row * WIDTH, embedding))
    const scale = this.alpha / this.rank
    const logits = this.base
      .logits(token)
      .map((logit, id) => logit + scale * dot(this.weights.b, id * this.rank, hidden))
    const most = logits.reduce((max, logit) => Math.max(max, logit), -Infinity)
    const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0)
    return { hidden, logprobs: logits.map((logit) => logit - most - Math.log(sum)) }
  }

  after(token: number): Float64Array {
    return this.predict(token).logprobs
  }

  logprobs(tokens: readonly number[], targets: readonly number[]): number[] {
    const known = new Map<number, Float64Array>()
    return targets.map((target, at) => {
      const token = tokens[at] ?? 0
      const logprobs = known.get(token) ?? this.after(token)
      known.set(token, logprobs)
      if (target >= logprobs.length) throw new Error(`token ${target} is outside the vocabulary`)
      return logprobs[target] ?? 0
    })
  }

  /** Adds the gradient of the rows. Returns their log-probs. */
  backward(rows: readonly Row[], reduction: Reduction): number[][] {
    return rows.map(({ tokens, targets, slope }) => {
      const share = reduction === 'sequence_mean' ? 1 / targets.length : 1
      this.rows += 1
      this.targets += targets.length
      return targets.map((target, at) => {
        const token = tokens[at] ?? 0
        const { hidden, logprobs } = this.predict(token)
        const logprob = logprobs[target] ?? 0
        this.add(token, hidden, logprobs, target, slope(logprob, at) * share)
        return logprob
      })
    })
  }

  private add(token: number, hidden: Float64Array, logprobs: Float64Array, target: number, slope: number): void {
    if (slope === 0) return
    const scale = this.alpha / this.rank
    const embedding = this.base.embedding(token)
    const back = new Float64Array(this.rank)
    for (let id = 0; id < logprobs.length; id++) {
      const error = slope * ((id === target ? 1 : 0) - Math.exp(logprobs[id] ?? 0)) * scale
      for (let row = 0; row < this.rank; row++) {
        this.gradients.b[id * this.rank + row]! += error * (hidden[row] ?? 0)
        back[row]! += error * (this.weights.b[id * this.rank + row] ?? 0)
      }
    }
    for (let row = 0; row < this.rank; row++)
      for (let column = 0; column < WIDTH; column++)
        this.gradients.a[row * WIDTH + column]! += (back[row] ?? 0) * (embedding[column] ?? 0)
  }

  /** AdamW on the gradients since the last step. Returns the norm of the gradient before it is clipped. */
  step({ rate, beta1, beta2, epsilon, decay, clip }: Adam, reduction: Reduction): number {
    const divisor = reduction === 'sequence_mean' ? this.rows : reduction === 'token_mean' ? this.targets : 1
    const parts = ['a', 'b'] as const
    const all = parts.flatMap((part) => [...this.gradients[part]].map((value) => value / Math.max(1, divisor)))
    const norm = Math.sqrt(all.reduce((sum, value) => sum + value * value, 0))
    const factor = (clip > 0 ? Math.min(1, clip / (norm || 1)) : 1) / Math.max(1, divisor)
    this.steps += 1
    for (const part of parts) {
      const [weights, gradients, m, v] = [
        this.weights[part],
        this.gradients[part],
        this.moments.m[part],
        this.moments.v[part],
      ]
      weights.forEach((weight, index) => {
        const gradient = (gradients[index] ?? 0) * factor
        m[index] = beta1 * (m[index] ?? 0) + (1 - beta1) * gradient
        v[index] = beta2 * (v[index] ?? 0) + (1 - beta2) * gradient * gradient
        const first = m[index]! / (1 - beta1 ** this.steps)
        const second = v[index]! / (1 - beta2 ** this.steps)
        weights[index] = weight - rate * decay * weight - (rate * first) / (Math.sqrt(second) + epsilon)
      })
    }
    this.gradients = this.zeros()
    this.rows = 0
    this.targets = 0
    return norm
  }
}
