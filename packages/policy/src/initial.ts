/** Initial weights of a model that is trained from scratch. */
import { normal } from './random.ts'
import { weightShapes } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

/**
 * Matrices [out, in] are N(0, 1/in), the embedding N(0, 0.02²), norms 1, biases 0. Random numbers are drawn in the
 * order of `weightShapes`; equal seeds give equal weights.
 */
export function initialWeights(config: ModelConfig, seed: number): Map<string, WeightTensor> {
  const next = normal(seed)
  return new Map(
    weightShapes(config).map(([name, shape]) => {
      const data = new Float32Array(shape.reduce((product, size) => product * size, 1))
      if (shape.length === 1) data.fill(name.endsWith('.bias') ? 0 : 1)
      else {
        const deviation = name === 'model.embed_tokens.weight' ? 0.02 : 1 / Math.sqrt(shape[1] ?? 1)
        for (let at = 0; at < data.length; at++) data[at] = deviation * next()
      }
      return [name, { shape, data }]
    }),
  )
}
