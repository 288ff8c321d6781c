/** A model and a batch without files: seeded weights, and completions sampled from them. For tests of the update. */
import { completionLogprobs, ownLogprobs } from '@instar/policy/forward'
import { initialWeights } from '@instar/policy/initial'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { uniform } from '@instar/policy/random'
import type { Runtime } from '@instar/policy/runtime/runtime'
import { weightsFrom } from '@instar/policy/weights'
import type { ModelConfig, Weights } from '@instar/policy/weights'

export const config: ModelConfig = {
  hiddenSize: 24,
  intermediateSize: 40,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  vocabulary: 60,
  contextLength: 128,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: true,
  attentionBias: false,
  tiedHead: true,
}

export const exampleSettings: StepSettings = {
  seed: 11,
  rank: 4,
  alpha: 8,
  learningRate: 3e-3,
  epochs: 2,
  beta1: 0.9,
  beta2: 0.95,
  maxGradNorm: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  tisCap: 2,
  sequenceMask: 1.5,
  opdWeight: 1,
  klWeight: 0.03,
  klFullAtAdvantage: 0.5,
  microBatchTokens: 80,
}

export function exampleWeights(): Weights {
  return weightsFrom(initialWeights(config, 17))
}

/** Ten turns at temperature 0.7 with the log-probs of the base; every third has a hint. */
export async function exampleItems(runtime: Runtime): Promise<TrainItem[]> {
  const next = uniform(23)
  const ids = (count: number): number[] => Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
  const items: TrainItem[] = []
  for (let at = 0; at < 10; at++) {
    const prompt = ids(5 + (at % 4) * 3)
    const completion = ids(4 + (at % 5) * 2)
    const [rows] = await completionLogprobs(runtime, [{ prompt, completion, temperature: 0.7, slot: null }])
    items.push({
      prompt,
      completion,
      temperature: 0.7,
      advantage: at % 3 === 0 ? -0.7 : 0.4,
      behaviourLogprobs: [...ownLogprobs(rows as Float32Array, completion)],
      hintPrompt: at % 3 === 0 ? [...prompt, ...ids(6)] : null,
    })
  }
  return items
}
