/**
 * The hybrid loss of one update, computed from log-probabilities (nats). N response tokens in the batch, V tokens in
 * the vocabulary. Each log-probability is that of the logits divided by the sampling temperature of its token: the
 * policy is the distribution that was sampled.
 *
 *   loss = Σ_n w_n · max(−r_n A_n, −clip(r_n, 1 − εl, 1 + εh) A_n)     policy term: PPO's clipped surrogate
 *        + Σ_n o_n · Σ_v p(v) · (log p(v) − log p_teacher(v))          OPD term: reverse KL to base + hint, or
 *                    Σ_v p_teacher(v) · (log p_teacher(v) − log p(v))  forward KL, or a mixture (`opdForward`)
 *        + Σ_n k_n · Σ_v p(v) · (log p(v) − log p_base(v))             KL term: reverse KL to the base
 *
 * r_n = p / p_old, where p_old is the learner's probability of the token before the first gradient step. A_n is the
 * advantage of the turn. The importance weight of a token is p/q = (p_old/q) · (p/p_old), with q the probability
 * recorded at sampling: `tokenWeights` truncates the first factor and includes it in w_n; the second factor is the
 * ratio that is clipped here. The gradient of the reverse KL by the logit of token v is p(v) · (log p(v)/p_teacher(v) − KL),
 * which vanishes with p(v): a token that the teacher wants and the policy hardly ever samples (the end of an answer) is not
 * learned from it. That of the forward KL is p(v) − p_teacher(v). Both KL terms sum over the whole vocabulary, or over the most likely tokens of the
 * reference and all others as one bucket (references.ts): an estimate from the sampled token alone has a heavy tail (a
 * single token with a log-ratio of 8 dominated a clipped gradient). Each term has a denominator of
 * its own, which `tokenWeights` (token-weights.ts) includes in w, o and k: the place for weights of turns and tokens.
 *
 * p_teacher is the base model with the hint in its prompt, or exaggerates what the hint changes (`opdContrast`:
 * `contrastedTeacher` in references.ts).
 *
 * Sources: the clipped surrogate is PPO, arXiv 1707.06347, section 3, eq. 7; the separate limits εl and εh are
 * "Clip-Higher" of DAPO, arXiv 2503.14476, section 3.1; p_old separate from q is the decoupled objective of Hilton
 * et al., arXiv 2110.00641, section 2; both directions of the KL on the student's own samples are of GKD, arXiv 2306.13649,
 * section 3.
 */
import * as tf from './tensors.ts'
import { MIN_TAIL } from './references.ts'
import { MAX_LOG_RATIO } from './token-weights.ts'

/**
 * Inputs of one KL term: R rows of log-probabilities of the policy and of its reference, and the weight of each row.
 * `reduced`: the k tokens of each reference; its last column, of its tail, has no counterpart in `student`.
 */
type Divergence =
  | { reduced: false; student_RV: tf.Tensor2D; reference_RV: tf.Tensor2D; weight_R: tf.Tensor1D }
  | { reduced: true; student_Rk: tf.Tensor2D; reference_Rk1: tf.Tensor2D; weight_R: tf.Tensor1D }

type HybridInputs = {
  /** log p of the sampled tokens, with gradient. */
  logp_N: tf.Tensor1D
  /** log p_old of the same tokens, constant. */
  old_N: tf.Tensor1D
  advantage_N: tf.Tensor1D
  weight_N: tf.Tensor1D
  clipLow: number
  clipHigh: number
  /** Part of the OPD term that is forward KL, 0…1. */
  opdForward: number
  opd: Divergence
  kl: Divergence
}

/** Σ_r weight_r · KL(student_r ‖ reference_r), exact over the vocabulary or over k + 1 buckets, in nats. */
function weightedKl(divergence: Divergence): tf.Scalar {
  if (divergence.reduced) return tf.sum(tf.mul(bucketKl(divergence), divergence.weight_R))
  const { student_RV, reference_RV, weight_R } = divergence
  const each_R = tf.sum(tf.mul(tf.exp(student_RV), tf.sub(student_RV, reference_RV)), 1)
  return tf.sum(tf.mul(each_R, weight_R))
}

/** Σ_r weight_r · KL(reference_r ‖ student_r), over the same tokens or buckets, in nats. */
function weightedForwardKl(divergence: Divergence): tf.Scalar {
  if (divergence.reduced) return tf.sum(tf.mul(forwardBucketKl(divergence), divergence.weight_R))
  const { student_RV, reference_RV, weight_R } = divergence
  const each_R = tf.sum(tf.mul(tf.exp(reference_RV), tf.sub(reference_RV, student_RV)), 1)
  return tf.sum(tf.mul(each_R, weight_R))
}

/** [R]: KL(reference ‖ student) over the k kept tokens and the tail of each row. */
function forwardBucketKl({ student_Rk, reference_Rk1 }: Extract<Divergence, { reduced: true }>): tf.Tensor1D {
  const k = student_Rk.shape[1]
  const [reference_Rk, referenceTail_R1] = tf.split(reference_Rk1, [k, 1], 1) as [tf.Tensor2D, tf.Tensor2D]
  const tail_R1 = tailOf(tf.exp(student_Rk))
  const kept_R = tf.sum(tf.mul(tf.exp(reference_Rk), tf.sub(reference_Rk, student_Rk)), 1)
  const tailTerm_R1 = tf.mul(tf.exp(referenceTail_R1), tf.sub(referenceTail_R1, tf.log(tail_R1)))
  return tf.add(kept_R, tf.sum(tailTerm_R1, 1)) as tf.Tensor1D
}

const tailOf = (p_Rk: tf.Tensor2D): tf.Tensor =>
  tf.clipByValue(tf.sub(tf.scalar(1), tf.sum(p_Rk, 1, true)), MIN_TAIL, 1)

/** [R]: the KL over the k kept tokens and the tail of each row. */
function bucketKl({ student_Rk, reference_Rk1 }: Extract<Divergence, { reduced: true }>): tf.Tensor1D {
  const k = student_Rk.shape[1]
  const [reference_Rk, referenceTail_R1] = tf.split(reference_Rk1, [k, 1], 1) as [tf.Tensor2D, tf.Tensor2D]
  const p_Rk = tf.exp(student_Rk)
  const tail_R1 = tailOf(p_Rk)
  const kept_R = tf.sum(tf.mul(p_Rk, tf.sub(student_Rk, reference_Rk)), 1)
  const tailTerm_R1 = tf.mul(tail_R1, tf.sub(tf.log(tail_R1), referenceTail_R1))
  return tf.add(kept_R, tf.sum(tailTerm_R1, 1)) as tf.Tensor1D
}

/** The policy term, as a scalar. The log-ratio is clamped to ± MAX_LOG_RATIO before exp. */
function clippedPolicyLoss(inputs: Omit<HybridInputs, 'opd' | 'opdForward' | 'kl'>): tf.Scalar {
  const { logp_N, old_N, advantage_N, weight_N, clipLow, clipHigh } = inputs
  const ratio_N = tf.exp(tf.clipByValue(tf.sub(logp_N, old_N), -MAX_LOG_RATIO, MAX_LOG_RATIO))
  const plain_N = tf.mul(ratio_N, advantage_N)
  const clipped_N = tf.mul(tf.clipByValue(ratio_N, 1 - clipLow, 1 + clipHigh), advantage_N)
  return tf.neg(tf.sum(tf.mul(tf.minimum(plain_N, clipped_N), weight_N)))
}

/** (1 − forward) · reverse KL + forward · forward KL. With 0 or 1 the graph has one of them only. */
function distillation(divergence: Divergence, forward: number): tf.Scalar {
  if (forward === 0) return weightedKl(divergence)
  if (forward === 1) return weightedForwardKl(divergence)
  return tf.add(tf.mul(weightedKl(divergence), 1 - forward), tf.mul(weightedForwardKl(divergence), forward))
}

/** The three terms and their sum, as scalars. */
export function hybridLoss(inputs: HybridInputs): {
  policy: tf.Scalar
  opd: tf.Scalar
  kl: tf.Scalar
  loss: tf.Scalar
} {
  const policy = clippedPolicyLoss(inputs)
  const opd = distillation(inputs.opd, inputs.opdForward)
  const kl = weightedKl(inputs.kl)
  return { policy, opd, kl, loss: tf.add(policy, tf.add(opd, kl)) }
}
