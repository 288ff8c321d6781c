/** Distributions given by rows of logits, on plain arrays. Log-probabilities, entropy and KL divergence are in nats. */

/** Replaces `data` [rows, V] by log softmax(row · inverseTemperature(row)), row by row. */
export function logSoftmaxRows(
  data: Float32Array,
  rows: number,
  V: number,
  inverseTemperature: (row: number) => number,
): void {
  for (let row = 0; row < rows; row++) {
    const scale = inverseTemperature(row)
    const from = row * V
    let max = -Infinity
    for (let v = 0; v < V; v++) {
      const value = (data[from + v] as number) * scale
      if (value > max) max = value
    }
    let sum = 0
    for (let v = 0; v < V; v++) sum += Math.exp((data[from + v] as number) * scale - max)
    const total = max + Math.log(sum)
    for (let v = 0; v < V; v++) data[from + v] = (data[from + v] as number) * scale - total
  }
}

/** Entropy of softmax(z) with z = logits · inverseTemperature: log Σ e^z − Σ z e^z / Σ e^z. */
export function entropyOf(logits_V: Float32Array, inverseTemperature: number): number {
  let max = -Infinity
  for (let v = 0; v < logits_V.length; v++) if ((logits_V[v] as number) > max) max = logits_V[v] as number
  let sum = 0
  let weighted = 0
  for (let v = 0; v < logits_V.length; v++) {
    const z = ((logits_V[v] as number) - max) * inverseTemperature
    const e = Math.exp(z)
    sum += e
    weighted += z * e
  }
  return Math.log(sum) - weighted / sum
}

/** KL(p ‖ q) of row `row`; `p` and `q` are arrays of log-probabilities [rows, V]. */
export function klOf(p: Float32Array, q: Float32Array, row: number, V: number): number {
  let sum = 0
  for (let at = row * V; at < (row + 1) * V; at++)
    sum += Math.exp(p[at] as number) * ((p[at] as number) - (q[at] as number))
  return sum
}

/** `klOf` for several q at once: each probability of p is computed once. The sums are the same to the last bit. */
export function klsOf(p: Float32Array, qs: readonly Float32Array[], row: number, V: number): number[] {
  const sums = qs.map(() => 0)
  for (let at = row * V; at < (row + 1) * V; at++) {
    const logp = p[at] as number
    const probability = Math.exp(logp)
    for (let k = 0; k < qs.length; k++)
      sums[k] = (sums[k] as number) + probability * (logp - ((qs[k] as Float32Array)[at] as number))
  }
  return sums
}

/** 1 / temperature; 1 for temperature 0: a greedily sampled token is scored at temperature 1. */
export function inverseTemperature(temperature: number): number {
  return temperature === 0 ? 1 : 1 / temperature
}
