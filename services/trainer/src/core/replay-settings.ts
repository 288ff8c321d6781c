/** The settings of a replay: the recorded ones with the changes of `--set`. */
import { InstarError, isLoss, LOSS_NAMES, type Settings } from '@instar/events'
import { RULES } from './baseline.ts'
import { MAX_ITEMS } from './batch.ts'

/**
 * A batch that is sealed is computed with its settings, whatever the settings file says later: a mistyped number must not
 * take all memory or years.
 */
export const MAX_RANK = 1024
export const MAX_EPOCHS = 100
export const MAX_CONTRAST = 10
export const MAX_REHEARSED = 64

type SettingBounds = { expected: string; accepts(value: number): boolean }
const COUNT: SettingBounds = {
  expected: 'a whole number of at least 1',
  accepts: (value) => Number.isSafeInteger(value) && value >= 1,
}
const upTo = (most: number): SettingBounds => ({
  expected: `a whole number from 1 to ${most}`,
  accepts: (value) => COUNT.accepts(value) && value <= most,
})
const POSITIVE: SettingBounds = { expected: 'a number above 0', accepts: (value) => value > 0 }
const DECAY: SettingBounds = { expected: 'at least 0 and below 1', accepts: (value) => value >= 0 && value < 1 }
/** The default: weights and limits that may be 0. */
const NOT_NEGATIVE: SettingBounds = { expected: 'a number of at least 0', accepts: (value) => value >= 0 }
const WHOLE: SettingBounds = {
  expected: 'a whole number of at least 0',
  accepts: (value) => Number.isSafeInteger(value) && value >= 0,
}
const FRACTION: SettingBounds = { expected: 'from 0 to 1', accepts: (value) => value >= 0 && value <= 1 }
const SHARE: SettingBounds = { expected: 'above 0 and at most 1', accepts: (value) => value > 0 && value <= 1 }
const SWITCH: SettingBounds = { expected: '0 or 1', accepts: (value) => value === 0 || value === 1 }
/** Settings that are missing in batches of earlier builds; a replay may set them. */
const ADDED: Readonly<Record<string, SettingBounds>> = {
  turnFactor: NOT_NEGATIVE,
  weightShare: FRACTION,
  opdOverBatch: SWITCH,
  turnScoreWeight: FRACTION,
  referenceTopK: WHOLE,
  opdForward: FRACTION,
  opdContrast: {
    expected: `from 1 to ${MAX_CONTRAST}`,
    accepts: (value) => value >= 1 && value <= MAX_CONTRAST,
  },
  miniBatches: upTo(MAX_ITEMS),
  rehearsalRows: {
    expected: `a whole number from 0 to ${MAX_REHEARSED}`,
    accepts: (value) => WHOLE.accepts(value) && value <= MAX_REHEARSED,
  },
  rehearsalWeight: NOT_NEGATIVE,
  turnTokensMax: WHOLE,
  adamEpsilon: SHARE,
  sampledTokens: SWITCH,
  logRatioMax: POSITIVE,
  klParentMax: POSITIVE,
  klBaseMax: POSITIVE,
}
const BOUNDS: Readonly<Record<string, SettingBounds>> = {
  ...ADDED,
  rank: upTo(MAX_RANK),
  epochs: upTo(MAX_EPOCHS),
  batchSize: upTo(MAX_ITEMS),
  batchMax: upTo(MAX_ITEMS),
  sequenceMask: { expected: 'a number of at least 1', accepts: (value) => value >= 1 },
  referenceBytes: WHOLE,
  staleness: WHOLE,
  keyShare: SHARE,
  subjectShare: SHARE,
  microBatchTokens: COUNT,
  alpha: POSITIVE,
  learningRate: { expected: 'above 0 and at most 1', accepts: (value) => value > 0 && value <= 1 },
  maxGradNorm: POSITIVE,
  beta1: DECAY,
  beta2: DECAY,
}

/** Recorded with a batch and not set by anybody. */
const DERIVED: readonly string[] = ['rules', 'rehearsalPrompts']

const SECTION = 'training.'

/** Settings of a new adapter; they cannot be changed for an existing one. */
const NEW_ADAPTER_ONLY: readonly string[] = ['rank', 'alpha']

/**
 * The recorded settings with the changes of `--set`, which uses their names, `loss`, and `lr` for learningRate; each also
 * with the section of the settings file (`training.epochs`). `from`: the version at which the branch starts. Throws `bad_request` for unknown names and invalid values.
 */
export const changedSettings = (
  recorded: Settings,
  set: Record<string, string>,
  from = 0,
): { settings: Settings; loss: string | null } => {
  // New batches are sealed under the rules of this build.
  const settings: Settings = { ...recorded, rules: RULES }
  let loss: string | null = null
  for (const [given, value] of Object.entries(set)) {
    const name = given.startsWith(SECTION) ? given.slice(SECTION.length) : given
    if (name === 'loss') {
      if (!isLoss(value))
        throw new InstarError(
          'bad_request',
          `--set loss=${value}: loss must be ${LOSS_NAMES.slice(0, -1).join(', ')} or ${LOSS_NAMES.at(-1)}`,
          { field: 'loss' },
        )
      loss = value
      continue
    }
    const key = name === 'lr' ? 'learningRate' : name
    const number = Number(value)
    const names = [...new Set([...Object.keys(recorded), ...Object.keys(ADDED)])]
      .filter((one) => !DERIVED.includes(one))
      .sort()
    if (!names.includes(key))
      throw new InstarError(
        'bad_request',
        `--set ${name}: unknown setting; the settings are ${names.join(', ')}, loss`,
        { field: name },
      )
    if (value.trim() === '' || !Number.isFinite(number))
      throw new InstarError('bad_request', `--set ${name}=${value}: ${name} must be a number`, { field: name })
    const { expected, accepts } = BOUNDS[key] ?? NOT_NEGATIVE
    if (!accepts(number))
      throw new InstarError('bad_request', `--set ${name}=${value}: ${name} must be ${expected}`, { field: name })
    if (from > 0 && NEW_ADAPTER_ONLY.includes(key))
      throw new InstarError(
        'bad_request',
        `--set ${name}=${value}: ${name} of the adapter of version ${from} cannot be changed; start the replay at the base`,
        { field: name },
      )
    settings[key] = number
  }
  return { settings, loss }
}
