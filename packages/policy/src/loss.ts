/**
 * The hybrid loss of one update, a function of log-probabilities alone. N response tokens of a batch, V
 * vocabulary; all log-probabilities are of logits divided by the token's sampling temperature, since the
 * policy *is* the distribution that was sampled from.
 *
 *   loss = Σ_n w_n · max(−r_n A_n, −clip(r_n, 1 − εl, 1 + εh) A_n)                       policy (GRPO / PPO)
 *        + Σ_n o_n · Σ_v p(v) · (log p(v) − log p_teacher(v))                            OPD (from hints)
 *        + Σ_n k_n · Σ_v p(v) · (log p(v) − log p_base(v))                               KL to the base
 *
 * r_n = p/p_old, p_old the learner's own probability when the update began. The importance of a token against
 * the behaviour that sampled it, p/q = (p_old/q)·(p/p_old), has its first factor truncated in w_n and its
 * second clipped here, so a batch from an older version, or from an engine that rounds otherwise, weighs
 * what it should and no more (PPO with a decoupled behaviour policy, truncated importance sampling).
 * A_n is the turn's advantage. Reverse KL over the whole vocabulary, where a single sampled token would have
 * a heavy tail (one token of log-ratio 8 has been seen to own a clipped gradient). Each of the three sums has
 * a denominator of its own, folded into w, o and k by `tokenWeights`.
 *
 * Sources: clipped surrogate, PPO (Schulman et al. 2017, section 3) with separate limits, DAPO (Yu et al. 2025,
 * section 3.1); decoupled behaviour policy, Hilton et al. 2021.
 */
import * as tf from './tensors.ts'
import { MAX_LOG_RATIO } from './credit.ts'

/** Inputs of one divergence: rows of log-probabilities, their reference and their weights. */
export type Divergence = { student_RV: tf.Tensor2D; reference_RV: tf.Tensor2D; weight_R: tf.Tensor1D }

export type HybridInputs = {
  /** Of the sampled tokens, now. */
  logp_N: tf.Tensor1D
  old_N: tf.Tensor1D
  advantage_N: tf.Tensor1D
  weight_N: tf.Tensor1D
  clipLow: number
  clipHigh: number
  opd: Divergence
  kl: Divergence
}

/** Σ_r weight_r · KL(student_r ‖ reference_r), exact over the vocabulary, in nats. */
export function weightedKl({ student_RV, reference_RV, weight_R }: Divergence): tf.Scalar {
  const each_R = tf.sum(tf.mul(tf.exp(student_RV), tf.sub(student_RV, reference_RV)), 1)
  return tf.sum(tf.mul(each_R, weight_R))
}

/** Σ_n weight_n · max(−r A, −clip(r) A). */
export function clippedPolicyLoss(inputs: Omit<HybridInputs, 'opd' | 'kl'>): tf.Scalar {
  const { logp_N, old_N, advantage_N, weight_N, clipLow, clipHigh } = inputs
  const ratio_N = tf.exp(tf.clipByValue(tf.sub(logp_N, old_N), -MAX_LOG_RATIO, MAX_LOG_RATIO))
  const plain_N = tf.mul(ratio_N, advantage_N)
  const clipped_N = tf.mul(tf.clipByValue(ratio_N, 1 - clipLow, 1 + clipHigh), advantage_N)
  return tf.neg(tf.sum(tf.mul(tf.minimum(plain_N, clipped_N), weight_N)))
}

/** The three parts; their sum is the loss. */
export function hybridLoss(inputs: HybridInputs): {
  policy: tf.Scalar
  opd: tf.Scalar
  kl: tf.Scalar
  loss: tf.Scalar
} {
  const policy = clippedPolicyLoss(inputs)
  const opd = weightedKl(inputs.opd)
  const kl = weightedKl(inputs.kl)
  return { policy, opd, kl, loss: tf.add(policy, tf.add(opd, kl)) }
}
