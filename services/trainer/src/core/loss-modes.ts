/**
 * The losses by name and the signals that each uses. All share one loss function (packages/policy/src/loss.ts);
 * shell/compute.ts omits the signals that a mode does not use.
 *
 * A new loss is an entry here. For new arithmetic: what a turn brings is `TrainItem` (packages/engine/src/port.ts)
 * from `trainItem` in shell/compute.ts; weights of turns and tokens are `tokenWeights` (packages/policy/src/
 * token-weights.ts), terms `hybridLoss` (loss.ts); a hyperparameter is in `StepSettings` (port.ts) and in config.ts.
 */

type LossMode = {
  /** Policy gradient with the advantages of rewards. */
  advantages: boolean
  /** On-policy distillation: the teacher has the hint in its prompt; for turns with a negative reward. */
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

/** The mode of a recorded batch; `hybrid` for a name that this build does not know. */
export const lossMode = (name: string): LossMode => (isLoss(name) ? LOSS_MODES[name] : LOSS_MODES.hybrid)
