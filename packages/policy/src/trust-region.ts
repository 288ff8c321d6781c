/**
 * Bounds on one update, measured in nats per token: its KL divergence to the adapter that it starts from, and to the
 * base model. A step that exceeds a bound is scaled back to the largest one found within it, by a line search as in
 * TRPO (Schulman et al. 2015, appendix C), instead of being rejected afterwards.
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
  tensors: Tensors
  /** Part of the step from the parent that was taken, 0…1. */
  stepScale: number
  /** Factor of the B matrices, or part of the way from the base's adapter, 0…1: below 1 it was drawn towards the base. */
  baseScale: number
  divergences: Divergences
}

/** Measurements of one line search at most. */
const TRIALS = 6
/** A trial within the bound that uses at least this part of it ends the search. */
const CLOSE = 0.8

/** What was measured at a scale, and `value`, the divergence that is bounded. */
type Trial<T> = { scale: number; value: number; at: T }

/**
 * The trial with the largest scale in 0…1 found whose divergence is within `bound`; null if none was. `whole` is the
 * trial at scale 1. A divergence grows about with the square of the scale, which gives the next trial; bisection keeps
 * it between the last trial within the bound and the last one beyond.
 */
export async function largestScale<T>(
  bound: number,
  whole: Trial<T>,
  measure: (scale: number) => Promise<Trial<T>>,
): Promise<Trial<T> | null> {
  let within: Trial<T> | null = null
  let beyond = Infinity
  let trial = whole
  for (let count = 1; ; count++) {
    const { scale, value } = trial
    if (value <= bound) {
      within = trial
      if (scale === 1 || value >= CLOSE * bound) return within
    } else beyond = scale
    if (count === TRIALS) return within
    const from = within?.scale ?? 0
    const next = value > 0 && Number.isFinite(value) ? scale * Math.sqrt((0.9 * bound) / value) : scale / 2
    trial = await measure(next > from && next < beyond ? next : (from + beyond) / 2)
  }
}

/**
 * `candidate`, whose divergences are `whole`, within both bounds: first drawn towards the base model, by one factor on
 * all B matrices (or, where an adapter is a part of the base, on the way from that), until its divergence to the base is
 * within its bound; then, from the parent, as far towards that as
 * the other bound allows. Where no trial is within a bound, the result is the base model, or the parent.
 */
export async function withinBounds(
  { parent, base }: { parent: Tensors; base: Tensors | null },
  candidate: Tensors,
  whole: Divergences,
  bounds: Bounds,
  measure: (tensors: Tensors) => Promise<Divergences>,
): Promise<Bounded> {
  type Measured = { tensors: Tensors; divergences: Divergences }
  const search = async (
    which: keyof Bounds,
    start: Measured,
    scaled: (scale: number) => Tensors,
  ): Promise<Measured & { scale: number }> => {
    const trial = ({ tensors, divergences }: Measured, scale: number): Trial<Measured> => ({
      scale,
      value: divergences[which],
      at: { tensors, divergences },
    })
    const measureAt = async (scale: number): Promise<Measured> => {
      const tensors = scaled(scale)
      return { tensors, divergences: await measure(tensors) }
    }
    const found = await largestScale(bounds[which], trial(start, 1), async (scale) =>
      trial(await measureAt(scale), scale),
    )
    return found ? { ...found.at, scale: found.scale } : { ...(await measureAt(0)), scale: 0 }
  }
  const near = await search('base', { tensors: candidate, divergences: whole }, (scale) =>
    base ? interpolate(base, candidate, scale) : scaleB(candidate, scale),
  )
  const taken = await search('parent', near, (scale) => interpolate(parent, near.tensors, scale))
  const { tensors, divergences } = taken
  return { tensors, stepScale: taken.scale, baseScale: near.scale, divergences }
}

export const exceeds = (divergences: Divergences, bounds: Bounds): boolean =>
  divergences.parent > bounds.parent || divergences.base > bounds.base
