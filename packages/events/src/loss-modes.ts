/**
 * The losses by name and the signals that each uses. All share one loss function (packages/policy/src/loss.ts);
 * `trainItem` omits the signals that a mode does not use.
 *
 * A new loss of these signals is an entry here. New arithmetic also touches:
 * - services/trainer/src/core/batch.ts, `hasSignal`: whether a batch has a signal that the loss uses
 * - packages/engine/src/port.ts: `TrainItem`, what a turn brings, and `StepSettings`, the hyperparameters
 * - services/trainer/src/shell/train-item.ts: `trainItem` builds the first, `stepSettings` the second
 * - packages/policy/src/token-weights.ts, `tokenWeights`: the weights of turns and tokens
 * - packages/policy/src/loss.ts, `hybridLoss`: the terms
 * - packages/policy/src/step.ts: the forward passes before the gradient, and the figures of the update
 * - services/trainer/src/config.ts: a hyperparameter as a setting
 * - services/trainer/src/core/replay-settings.ts: its bounds in a replay, and that recorded batches may lack it
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
