/**
 * The probes of a line: those that its base answers correctly and stably. Their ids and the base's figures stand in the
 * settings of `LineStarted`, so that every verdict of the line, also after a restart, uses the same probes.
 */
import type { LineStarted, Settings } from '@instar/events'
import type { Noise } from './falls.ts'

/**
 * What the base answered. `asked`: probes that were put to it, `right`: those with a correct greedy answer; `kept`: ids
 * of those that were also correct in each sampled answer. `noise`: of fresh answers to the kept ones, which did not
 * decide what is kept.
 */
export type BaseAnswers = { asked: number; right: number; kept: string[]; noise: Noise }

const PREFIX = 'probe '

export const batterySettings = ({ asked, right, kept, noise }: BaseAnswers): Settings => ({
  probes_asked: asked,
  probes_right: right,
  probes_kept: kept.length,
  probes_again: noise.answers,
  probes_again_failed: noise.failed,
  ...Object.fromEntries(kept.map((id) => [`${PREFIX}${id}`, 1])),
})

/** `kept`: ids of the line's probes. Null: a line of an earlier build, which recorded none. */
export type Battery = { asked: number; right: number; kept: ReadonlySet<string>; noise: Noise }

export const batteryOf = (started: Pick<LineStarted, 'settings'> | null): Battery | null => {
  const settings = started?.settings
  if (settings?.probes_asked === undefined) return null
  return {
    asked: settings.probes_asked,
    right: settings.probes_right ?? 0,
    kept: new Set(Object.keys(settings).flatMap((key) => (key.startsWith(PREFIX) ? [key.slice(PREFIX.length)] : []))),
    noise: { answers: settings.probes_again ?? 0, failed: settings.probes_again_failed ?? 0 },
  }
}

/** Kept probes below which a gate is said to have too few, unless a setting names another number. */
export const MINIMUM = 32

/**
 * A sentence for console, `doctor` and `versions`; '' if there are enough. `found`: kept probes that were found again.
 */
export const probeShortage = (
  started: Pick<LineStarted, 'settings'> | null,
  minimum: number = MINIMUM,
  found?: number,
): string => {
  if (!started) return ''
  const battery = batteryOf(started)
  if (!battery)
    return started.settings.content === undefined
      ? `the gate has no probes: it does not notice what the model forgets (the line was started by an earlier build)`
      : ''
  const kept = found ?? battery.kept.size
  if (kept >= minimum) return ''
  return (
    `the gate has ${kept} probe${kept === 1 ? '' : 's'}, fewer than ${minimum}: it ${kept === 0 ? 'does not notice' : 'hardly notices'} what ` +
    `the model forgets (the base answered ${battery.right} of ${battery.asked}` +
    (found !== undefined && found < battery.kept.size
      ? `; ${battery.kept.size - found} kept ones are no longer there`
      : '') +
    '). Add probes of your own: docs/learning.md#probes'
  )
}
