/** Dimensions of the model (Qwen3 layout: norms on queries and keys, no biases, head tied to the embedding). */
export const SHAPE = {
  width: 160,
  layers: 4,
  heads: 5,
  headWidth: 32,
  feedForward: 432,
  context: 2_048,
  theta: 10_000,
  epsilon: 1e-6,
} as const
