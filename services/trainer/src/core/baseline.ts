/**
 * Advantages: reward minus baseline. The baseline of a request with several candidates is their mean reward, as in GRPO
 * (DeepSeekMath, arXiv 2402.03300, section 4.1) without the division by the standard deviation. Other requests have no
 * group, so their baseline is a running mean of the subject's rewards, as in role-conditioned advantage estimation
 * (SPIRAL, arXiv 2506.24119): an exponential mean with decay DECAY per turn.
 *
 * The first mean of a subject is that of its rewards in the batch, shrunk towards the running mean of its API key (of
 * all turns without keys) with the weight of SHRINK turns; otherwise a subject with one turn would have advantage 0.
 * Clients choose their subjects but not their keys: constant praise under changing subjects converges to the mean of the
 * key, and its advantages to 0. The first mean of a key is shrunk towards the mean of all turns.
 */
export const DECAY = 0.9
const SHRINK = 2
/** Name of the running mean of all turns; no subject has this hash. */
export const ALL_TURNS = ''

/**
 * Version of the rules by which batches are sealed, audited and replayed (`settings.rules`; 1 if absent). Since 2,
 * baselines depend on the API key, and the loss `opd` has the full weight of the KL to the base.
 */
export const RULES = 2
export const rulesOf = (settings: Readonly<Record<string, number>>): number => settings.rules ?? 1

type Mean = { value: number; count: number }
export type Baselines = Pick<ReadonlyMap<string, Mean>, 'get'>
/** `key`: the API key, null without keys. `group`: the request; its candidates have the same. */
type RewardedTurn = { subject: string; key: string | null; group: string; reward: number }
type Advantages = { items: { baseline: number; advantage: number }[]; after: ({ subject: string } & Mean)[] }

/** Name of a key's mean among those of subjects, which are hashes. */
const meanOfKey = (key: string): string => `key ${key}`

/** Advantages of a batch in the order of `items`, and the running means after it. `before`: the means before it. */
export const advantages = (items: readonly RewardedTurn[], before: Baselines, rules = RULES): Advantages => {
  const overall = before.get(ALL_TURNS) ?? { value: 0, count: 0 }
  const keyOf = ({ key }: RewardedTurn): string | null => (rules < 2 ? null : key)
  const bySubject = Map.groupBy(items, (item) => item.subject)
  const byGroup = Map.groupBy(items, (item) => item.group)
  const byKey = Map.groupBy(
    items.filter((item) => keyOf(item) !== null),
    (item) => meanOfKey(keyOf(item) ?? ''),
  )
  const keys = new Map([...byKey].map(([name, own]) => [name, startMean(before.get(name), overall, own)]))
  const start = new Map<string, Mean>()
  for (const [subject, own] of bySubject) {
    const key = own[0] ? keyOf(own[0]) : null
    start.set(subject, startMean(before.get(subject), (key !== null && keys.get(meanOfKey(key))) || overall, own))
  }
  const result = items.map((item) => {
    const group = byGroup.get(item.group) ?? []
    const own = start.get(item.subject)?.value ?? 0
    const baseline = group.length > 1 ? group.reduce((total, one) => total + one.reward, 0) / group.length : own
    return { baseline, advantage: item.reward - baseline }
  })
  type Parts = ReadonlyMap<string, readonly RewardedTurn[]>
  const after = (means: ReadonlyMap<string, Mean>, own: Parts): Advantages['after'] =>
    [...means].map(([subject, mean]) => ({ subject, ...advance(mean, own.get(subject) ?? []) }))
  const all = { subject: ALL_TURNS, ...advance(overall, items) }
  return { items: result, after: [...after(start, bySubject), ...after(keys, byKey), all] }
}

/** The known mean; otherwise the first one: the mean of `own`, shrunk towards `wider`. */
const startMean = (known: Mean | undefined, wider: Mean, own: readonly RewardedTurn[]): Mean => {
  const sum = own.reduce((total, item) => total + item.reward, 0)
  return known ?? { value: (SHRINK * wider.value + sum) / (SHRINK + own.length), count: 0 }
}

const advance = (from: Mean, items: readonly RewardedTurn[]): Mean => ({
  value: items.reduce((value, item) => DECAY * value + (1 - DECAY) * item.reward, from.value),
  count: from.count + items.length,
})
