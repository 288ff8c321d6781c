/**
 * Bounds on one update, measured in nats per token: its KL divergence to the adapter that it starts from, and to the
 * base model. A step that exceeds a bound is scaled back to the largest one found within it, by a line search as in
 * TRPO (Schulman et al. 2015, appendix C), instead of being refused afterwards.
 */
import { interpolate, scaleB } from './lora.ts'
import type { WeightTensor } from './weights.ts'

type Tensors = ReadonlyMap<string, WeightTensor>

export type Bounds = {
  /** Mean KL(candidate ‖ parent) over the response tokens of the batch; Infinity: no bound. */
  parent: number
  /** Mean KL(candidate ‖ base) over the response tokens of the batch; Infinity: no bound. */
  base: number
}

/** Means over the response tokens of the batch, nats per token. */
export type Divergences = { parent: number; base: number }

export type Bounded = {
  tensors: Map<string, WeightTensor>
  /** Part of the step from the parent that was taken, 0…1. */
  stepScale: number
  /** Factor of the B matrices, 0…1: below 1 the adapter was drawn towards the base model. */
  baseScale: number
  divergences: Divergences
}

/** Measurements of one line search at most. */
const TRIALS = 6
/** A trial within the bound that uses at least this part of it ends the search. */
const CLOSE = 0.8

/**
 * The largest scale in 0…1 found whose measured divergence is within `bound`; 0 (nothing measured) if none was. A
 * divergence grows about with the square of the scale, which gives the next trial; bisection keeps it between the last
 * trial within the bound and the last one beyond.
 */
export async function largestScale(
  bound: number,
  measure: (scale: number) => Promise<number>,
): Promise<{ scale: number; value: number }> {
  let within = { scale: 0, value: 0 }
  let beyond = Infinity
  let scale = 1
  for (let trial = 0; trial < TRIALS; trial++) {
    const value = await measure(scale)
    if (value <= bound) {
      within = { scale, value }
      if (scale === 1 || value >= CLOSE * bound) break
    } else beyond = scale
    const next = value > 0 && Number.isFinite(value) ? scale * Math.sqrt((0.9 * bound) / value) : scale / 2
    scale = next > within.scale && next < beyond ? next : (within.scale + beyond) / 2
  }
  return within
}

/**
 * `candidate` within both bounds: first drawn towards the base model, by one factor on all B matrices, until its
 * divergence to the base is within its bound; then, from the parent, as far towards that as the other bound allows.
 */
export async function withinBounds(
  parent: Tensors,
  candidate: Tensors,
  bounds: Bounds,
  measure: (tensors: Tensors) => Promise<Divergences>,
): Promise<Bounded> {
  const measured = new Map<Tensors, Divergences>()
  const read = async (tensors: Tensors): Promise<Divergences> => {
    const divergences = await measure(tensors)
    measured.set(tensors, divergences)
    return divergences
  }
  const whole = await read(candidate)
  let target = candidate
  let baseScale = 1
  if (whole.base > bounds.base) {
    const found = await largestScale(bounds.base, async (scale) =>
      scale === 1 ? whole.base : (await read((target = scaleB(candidate, scale)))).base,
    )
    baseScale = found.scale
    target = scaleB(candidate, baseScale)
  }
  let divergences = measured.get(target) ?? (await read(target))
  if (divergences.parent <= bounds.parent) return { tensors: new Map(target), stepScale: 1, baseScale, divergences }
  const found = await largestScale(bounds.parent, async (scale) => {
    const at = scale === 1 ? divergences : await read(interpolate(parent, target, scale))
    return at.parent
  })
  const tensors = interpolate(parent, target, found.scale)
  divergences = await read(tensors)
  return { tensors, stepScale: found.scale, baseScale, divergences }
}

export const exceeds = (divergences: Divergences, bounds: Bounds): boolean =>
  divergences.parent > bounds.parent || divergences.base > bounds.base
