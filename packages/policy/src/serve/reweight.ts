/**
 * Changes of the logits before sampling: bias, penalties, min-p, in the order of vLLM. The repetition penalty counts
 * tokens of prompt and answer (Keskar et al., CTRL, 2019), the other two those of the answer.
 */
import type { Reweighting } from '@instar/engine/port'

export class Reweighter {
  private readonly how: Reweighting
  private readonly temperature: number
  private readonly inPrompt: ReadonlySet<number>
  /** Counts of the answer's tokens so far. */
  private readonly counts = new Map<number, number>()

  /** `temperature`: min-p applies to the distribution after it; at 0 (greedy) min-p has no effect. */
  constructor(how: Reweighting, temperature: number, prompt: readonly number[]) {
    this.how = how
    this.temperature = temperature
    this.inPrompt = new Set(how.repetitionPenalty === 1 ? [] : prompt)
  }

  /** Returns a new row; -∞ stays -∞. */
  apply(logits_V: Float32Array): Float32Array {
    const { logitBias, repetitionPenalty, frequencyPenalty, presencePenalty, minP } = this.how
    const out = Float32Array.from(logits_V)
    for (const [id, bias] of logitBias) out[id]! += bias
    if (repetitionPenalty !== 1)
      for (const id of new Set([...this.inPrompt, ...this.counts.keys()]))
        out[id] = out[id]! > 0 ? out[id]! / repetitionPenalty : out[id]! * repetitionPenalty
    for (const [id, count] of this.counts) out[id]! -= frequencyPenalty * count + presencePenalty
    if (minP > 0 && this.temperature > 0) {
      let max = -Infinity
      for (const logit of out) if (logit > max) max = logit
      const least = max + this.temperature * Math.log(minP)
      for (let id = 0; id < out.length; id++) if (out[id]! < least) out[id] = -Infinity
    }
    return out
  }

  /** Counts a sampled token. */
  push(id: number): void {
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1)
  }
}
