/**
 * Advantage of a single rollout: reward less a persistent baseline per subject, because live traffic has no
 * group of samples to compare with. Where a request was fanned out into candidates, GRPO's group mean
 * (DeepSeekMath, 2402.03300, §4.1, without the division by the standard deviation) takes its place.
 *
 * Baseline of a subject seen for the first time: the mean of its rewards in the batch, shrunk towards the
 * running mean of everyone with the weight of SHRINK turns, so that one lonely turn still has a signal.
 * Afterwards an exponential mean with DECAY per turn (role-conditioned advantage estimation, 2506.24119).
 */
export const DECAY = 0.9
const SHRINK = 2
/** Key of the running mean of everyone; no subject hashes to it. */
export const EVERYONE = ''

export type Baselines = Pick<ReadonlyMap<string, { value: number; count: number }>, 'get'>
export type Rewarded = { subject: string; group: string; reward: number }
export type Advantages = { items: { baseline: number; advantage: number }[]; after: { subject: string; value: number; count: number }[] }

export const advantages = (items: readonly Rewarded[], before: Baselines): Advantages => {
  const everyone = before.get(EVERYONE) ?? { value: 0, count: 0 }
  const bySubject = Map.groupBy(items, (item) => item.subject)
  const byGroup = Map.groupBy(items, (item) => item.group)
  const start = new Map<string, { value: number; count: number }>()
  for (const [subject, own] of bySubject) {
    const sum = own.reduce((total, item) => total + item.reward, 0)
    start.set(subject, before.get(subject) ?? { value: (SHRINK * everyone.value + sum) / (SHRINK + own.length), count: 0 })
  }
  const result = items.map((item) => {
    const group = byGroup.get(item.group) ?? []
    const baseline = group.length > 1 ? group.reduce((total, one) => total + one.reward, 0) / group.length : (start.get(item.subject)?.value ?? 0)
    return { baseline, advantage: item.reward - baseline }
  })
  const after = [...start].map(([subject, b]) => ({ subject, ...advance(b, bySubject.get(subject) ?? []) }))
  return { items: result, after: [...after, { subject: EVERYONE, ...advance(everyone, items) }] }
}

const advance = (from: { value: number; count: number }, items: readonly Rewarded[]): { value: number; count: number } => ({
  value: items.reduce((value, item) => DECAY * value + (1 - DECAY) * item.reward, from.value),
  count: from.count + items.length,
})
