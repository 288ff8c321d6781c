/**
 * The losses by name: which signals of a batch each trains on. The loss function itself is one for all
 * (packages/policy/src/loss.ts, weights of tokens in credit.ts); shell/compute.ts leaves out what a mode does not use.
 */

type LossMode = {
  /** GRPO: advantages of rewards. */
  advantages: boolean
  /** OPD: a teacher with the hint in its prompt, for turns with a negative reward. */
  hints: boolean
}

const LOSS_MODES = {
  hybrid: { advantages: true, hints: true },
  binary: { advantages: true, hints: false },
  opd: { advantages: false, hints: true },
} as const satisfies Record<string, LossMode>

type LossName = keyof typeof LOSS_MODES
export const LOSS_NAMES = Object.keys(LOSS_MODES) as [LossName, ...LossName[]]

export const isLoss = (name: string): name is LossName => Object.hasOwn(LOSS_MODES, name)

/** Of a recorded batch. A name that this build does not have trains on everything, as `hybrid`. */
export const lossMode = (name: string): LossMode => (isLoss(name) ? LOSS_MODES[name] : LOSS_MODES.hybrid)
