/**
 * Changes to the logits before sampling: bias, penalties and min-p, in the order of vLLM. The repetition penalty
 * (Keskar et al. 2019, CTRL, arXiv 1909.05858; negative logits are multiplied, as in Hugging Face) applies to tokens of
 * prompt and completion, the frequency and presence penalties to tokens of the completion.
 */
import type { Reweighting } from '@instar/engine/port'

export class Reweighter {
  private readonly settings: Reweighting
  private readonly temperature: number
  private readonly inPrompt: ReadonlySet<number>
  /** Number of occurrences of each token in the completion so far. */
  private readonly counts = new Map<number, number>()

  /** `temperature`: min-p applies to the distribution at this temperature; it has no effect at 0 (greedy). */
  constructor(settings: Reweighting, temperature: number, prompt: readonly number[]) {
    this.settings = settings
    this.temperature = temperature
    this.inPrompt = new Set(settings.repetitionPenalty === 1 ? [] : prompt)
  }

  /** Returns a new row of logits; −∞ stays −∞. */
  apply(logits_V: Float32Array): Float32Array {
    const { logitBias, repetitionPenalty, frequencyPenalty, presencePenalty, minP } = this.settings
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
