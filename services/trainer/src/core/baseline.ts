/**
 * Advantage of a single rollout: reward less a persistent baseline per subject, because live traffic has no
 * group of samples to compare with. Where a request was fanned out into candidates, GRPO's group mean
 * (DeepSeekMath, 2402.03300, §4.1, without the division by the standard deviation) takes its place.
 *
 * Baseline of a subject seen for the first time: the mean of its rewards in the batch, shrunk with the weight of
 * SHRINK turns towards the running mean of its API key (that of everyone without keys), so that one lonely turn still
 * has a signal. Who a subject is a client chooses, turn by turn if it likes; which key it has it does not: whoever
 * praises every answer under ever new names is measured by what that key always says. A key's first mean is shrunk
 * towards everyone's. Afterwards each is an exponential mean with DECAY per turn (role-conditioned advantage
 * estimation, 2506.24119).
 */
export const DECAY = 0.9
const SHRINK = 2
/** Key of the running mean of everyone; no subject hashes to it. */
export const EVERYONE = ''

/**
 * Under which rules a batch was sealed (`settings.rules`, 1 where there is none), since it is audited and replayed by
 * those. From 2 on baselines go by API key first, and the loss `opd` keeps the whole KL to the base.
 */
export const RULES = 2
export const rulesOf = (settings: Readonly<Record<string, number>>): number => settings.rules ?? 1

type Mean = { value: number; count: number }
export type Baselines = Pick<ReadonlyMap<string, Mean>, 'get'>
/** `key`: of the API, null without keys. */
export type Rewarded = { subject: string; key: string | null; group: string; reward: number }
type Advantages = { items: { baseline: number; advantage: number }[]; after: ({ subject: string } & Mean)[] }

/** Under which name the mean of a key is kept beside those of the subjects, which are hashes. */
const meanOfKey = (key: string): string => `key ${key}`

export const advantages = (items: readonly Rewarded[], before: Baselines, rules = RULES): Advantages => {
  const everyone = before.get(EVERYONE) ?? { value: 0, count: 0 }
  const keyOf = ({ key }: Rewarded): string | null => (rules < 2 ? null : key)
  const bySubject = Map.groupBy(items, (item) => item.subject)
  const byGroup = Map.groupBy(items, (item) => item.group)
  const byKey = Map.groupBy(
    items.filter((item) => keyOf(item) !== null),
    (item) => meanOfKey(keyOf(item) ?? ''),
  )
  const keys = new Map([...byKey].map(([name, own]) => [name, begun(before.get(name), everyone, own)]))
  const start = new Map<string, Mean>()
  for (const [subject, own] of bySubject) {
    const key = own[0] ? keyOf(own[0]) : null
    start.set(subject, begun(before.get(subject), (key !== null && keys.get(meanOfKey(key))) || everyone, own))
  }
  const result = items.map((item) => {
    const group = byGroup.get(item.group) ?? []
    const own = start.get(item.subject)?.value ?? 0
    const baseline = group.length > 1 ? group.reduce((total, one) => total + one.reward, 0) / group.length : own
    return { baseline, advantage: item.reward - baseline }
  })
  type Parts = ReadonlyMap<string, readonly Rewarded[]>
  const after = (means: ReadonlyMap<string, Mean>, own: Parts): Advantages['after'] =>
    [...means].map(([subject, mean]) => ({ subject, ...advance(mean, own.get(subject) ?? []) }))
  const all = { subject: EVERYONE, ...advance(everyone, items) }
  return { items: result, after: [...after(start, bySubject), ...after(keys, byKey), all] }
}

/** The mean that there is, or the first one: that of `own`, shrunk towards a wider one. */
const begun = (known: Mean | undefined, wider: Mean, own: readonly Rewarded[]): Mean => {
  const sum = own.reduce((total, item) => total + item.reward, 0)
  return known ?? { value: (SHRINK * wider.value + sum) / (SHRINK + own.length), count: 0 }
}

const advance = (from: Mean, items: readonly Rewarded[]): Mean => ({
  value: items.reduce((value, item) => DECAY * value + (1 - DECAY) * item.reward, from.value),
  count: from.count + items.length,
})
