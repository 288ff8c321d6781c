/** The losses: which signals of a batch each trains on. What they compute is packages/policy/src/{credit,loss}.ts. */

export type LossMode = {
  /** GRPO: advantages of rewards. */
  advantages: boolean
  /** OPD: a teacher with the hint in its prompt, for turns with a negative reward. */
  hints: boolean
}

export const LOSSES = {
  hybrid: { advantages: true, hints: true },
  binary: { advantages: true, hints: false },
  opd: { advantages: false, hints: true },
} as const satisfies Record<string, LossMode>

export type LossName = keyof typeof LOSSES
export const LOSS_NAMES = Object.keys(LOSSES) as [LossName, ...LossName[]]

export const isLoss = (name: string): name is LossName => Object.hasOwn(LOSSES, name)

/** Of a recorded batch. A name that this build does not have trains on everything, as `hybrid`. */
export const lossMode = (name: string): LossMode => (isLoss(name) ? LOSSES[name] : LOSSES.hybrid)
