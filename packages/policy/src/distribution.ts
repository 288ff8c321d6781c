/** Rows of logits as distributions, on plain arrays. All in nats. */

/** In place: row · inverseTemperature − log Σ exp. `data` is [rows, V]. */
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

/** −Σ p log p of the distribution of logits · inverseTemperature: log Σ e^z − Σ z e^z / Σ e^z. */
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

/** KL(p ‖ q) of row `row` of two arrays of log-probabilities [·, V]. */
export function klOf(p: Float32Array, q: Float32Array, row: number, V: number): number {
  let sum = 0
  for (let at = row * V; at < (row + 1) * V; at++)
    sum += Math.exp(p[at] as number) * ((p[at] as number) - (q[at] as number))
  return sum
}

/** Greedy sampling (temperature 0) is scored as the distribution of temperature 1. */
export function inverseTemperature(temperature: number): number {
  return temperature === 0 ? 1 : 1 / temperature
}
