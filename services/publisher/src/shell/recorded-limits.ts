/** The settings of the gate that its verdicts record. */
import type { Settings } from '@instar/events'
import type { PublisherConfig } from '../config.ts'
import type { Thresholds } from '../core/gate.ts'

/** Numbers of a configuration by name; those of an inner object have its name before them (`battery.kept`). */
const numbersOf = (config: object, prefix = ''): Settings =>
  Object.fromEntries(
    Object.entries(config).flatMap(([name, value]: [string, unknown]): [string, number][] =>
      typeof value === 'number'
        ? [[`${prefix}${name}`, value]]
        : typeof value === 'object' && value !== null
          ? Object.entries(numbersOf(value, `${prefix}${name}.`))
          : [],
    ),
  )

/** The gate's numeric settings, which its verdicts record: thresholds and the extent of the measurement. */
export const recordedLimits = (
  { thresholds, remote, ...others }: PublisherConfig,
  isRemote: boolean,
): Thresholds & Settings => ({
  ...numbersOf(isRemote ? { ...others, remote } : others),
  ...thresholds,
})
