/** A judging model with the reactions judge behind it: who is asked follows from core/breaker.ts. */
import { Breakers, type BreakerSettings, type SteppedDown } from '../core/breaker.ts'
import type { Evidence, Judgement } from '../core/judgement.ts'
import type { Judge } from './judges.ts'

/** Called after a failed attempt; false: the fallback judges the turn. `byEndpoint`: another turn would fail alike. */
export type Failed = (evidence: Evidence, byEndpoint: boolean) => boolean

const keyOf = ({ key }: Evidence): string | null => key ?? null

type FallbackPorts = { now: () => number; logLine?: ((line: string) => void) | undefined }

const WHY: Readonly<Record<SteppedDown, string>> = {
  failed: 'has failed several times in a row',
  drifted: 'contradicts what people say',
}

/**
 * The judges in the order in which they are asked. `model` makes the judge of the model; it is given what to call after
 * a failed attempt, which returns false if the fallback judges: then it is not to be waited for.
 */
export const withFallback = (
  model: (failed: Failed) => Judge,
  fallback: Judge,
  settings: BreakerSettings,
  { now, logLine = () => undefined }: FallbackPorts,
): Judge[] => {
  if (settings.failures === 0 && settings.agreement === 0) return [model(() => true)]
  const breakers = new Breakers(settings)
  let told: SteppedDown | null = null
  const tell = (): void => {
    if (breakers.down === told) return
    told = breakers.down
    logLine(
      told === null
        ? 'The judge is in force again.'
        : `The judge ${WHY[told]}: the reactions judge judges until it recovers.`,
    )
  }
  const primary = model((evidence, byEndpoint) => {
    breakers.failed(keyOf(evidence), byEndpoint, now())
    tell()
    return breakers.downFor(keyOf(evidence)) === null
  })
  const isLike = async (evidence: Evidence, { value }: Judgement, signal: AbortSignal): Promise<boolean | null> => {
    if (value === null || evidence.next === null || evidence.shown !== undefined) return null
    const other = await fallback.judge(evidence, signal)
    return other.value === null ? null : Math.sign(other.value) === Math.sign(value)
  }
  return [
    {
      ...primary,
      isAsked: (evidence) => breakers.asks(keyOf(evidence), now()),
      steppedDown: () => breakers.down,
      async judge(evidence, signal) {
        const judgement = await primary.judge(evidence, signal)
        if (judgement.failed !== true)
          breakers.answered(keyOf(evidence), await isLike(evidence, judgement, signal), now())
        tell()
        // Of a judge that contradicts people no opinion counts.
        return breakers.downFor(keyOf(evidence)) === 'drifted'
          ? { value: null, note: 'drifted', hint: null }
          : judgement
      },
    },
    { ...fallback, isAsked: (evidence) => breakers.downFor(keyOf(evidence)) !== null },
  ]
}
