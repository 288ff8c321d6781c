/**
 * Advantages: reward minus baseline. The baseline of a request with several candidates is their mean reward, as in GRPO
 * (DeepSeekMath, arXiv 2402.03300, section 4.1) without the division by the standard deviation. Other requests have no
 * group, so their baseline is a running mean of the subject's rewards, as in role-conditioned advantage estimation
 * (SPIRAL, arXiv 2506.24119): an exponential mean with decay DECAY per turn.
 *
 * The first mean of a subject is that of its rewards in the batch, shrunk towards the running mean of its API key (of
 * all turns without keys) with the weight of SHRINK turns; otherwise a subject with one turn would have advantage 0.
 * Clients choose their subjects but not their keys: constant praise under changing subjects converges to the mean of
 * the key, and its advantages to 0. The first mean of a key is shrunk towards the mean of all turns.
 *
 * A turn of an episode has the reward outcome + turnScoreWeight · turnScore (OpenClaw-RL, arXiv 2603.10165), and each
 * part its own baseline. That of the outcome is the mean over the episodes of its task, each counted once whatever its
 * number of turns, or else a running mean of the subject's outcomes with one step per episode: all turns of an episode
 * share one trajectory advantage. That of the own score is the mean of the subject's own scores. Means per turn index,
 * and means over the turns of a group, depend on when the policy stops, and so favour long or short episodes
 * (docs/learning.md).
 *
 * Running means are stored by name, in the field `subject` of the record of a batch: a subject's hash is the mean of its
 * own scores, `key <API key>` (`meanOfKey`) that of a key, '' (ALL_TURNS) that of all turns. The prefix `outcome `
 * (OUTCOME) before any of these names is the mean of outcomes of episodes: `outcome <hash>`, `outcome key <API key>`,
 * `outcome `. Hashes contain no spaces, so names do not collide.
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

/** The reward of a turn: its own score, the outcome of its episode, or both. Null is absent. */
export const combine = (turnScore: number | null, outcome: number | null, turnScoreWeight: number): number =>
  outcome === null ? (turnScore ?? 0) : outcome + turnScoreWeight * (turnScore ?? 0)

type Mean = { value: number; count: number }
export type Baselines = Pick<ReadonlyMap<string, Mean>, 'get'>
/**
 * `key`: the API key, null without keys. `group`: the request; its candidates have the same. `episode`: where an
 * outcome is in the reward; `task` '' is compared with no other episode.
 */
export type RewardedTurn = {
  subject: string
  key: string | null
  group: string
  reward: number
  episode?: { session: string; task: string; outcome: number; turnScore: number | null } | null
}
type NamedMean = { subject: string } & Mean
type Advantages = { items: { baseline: number; advantage: number }[]; after: NamedMean[] }

/** Advantages of a batch in the order of `items`, and the running means after it. `before`: the means before it. */
export const advantages = (
  items: readonly RewardedTurn[],
  before: Baselines,
  rules = RULES,
  turnScoreWeight = 0,
): Advantages => {
  const scores = runningMeans(
    items.flatMap((item) => {
      const value = item.episode ? item.episode.turnScore : item.reward
      return value === null ? [] : [{ ...item, value }]
    }),
    before,
    rules,
  )
  const episodes = [...Map.groupBy(items, ({ episode }) => episode?.session ?? null)].flatMap(([, [first]]) =>
    first?.episode ? [{ ...first, ...first.episode, value: first.episode.outcome }] : [],
  )
  const outcomes = episodes.length === 0 ? null : runningMeans(episodes, before, rules, OUTCOME)
  const byTask = Map.groupBy(episodes, ({ key, task, session }) => JSON.stringify([key, task || session, task !== '']))
  const meanOf = (own: readonly { value: number }[]): number =>
    own.reduce((total, { value }) => total + value, 0) / own.length
  const byGroup = Map.groupBy(
    items.filter(({ episode }) => !episode),
    (item) => item.group,
  )
  const baselineOf = (item: RewardedTurn): number => {
    const { episode } = item
    if (!episode) {
      const group = byGroup.get(item.group) ?? []
      return group.length > 1 ? meanOf(group.map(({ reward: value }) => ({ value }))) : scores.of(item)
    }
    const { task, session, turnScore } = episode
    const others = byTask.get(JSON.stringify([item.key, task || session, task !== ''])) ?? []
    const outcome = others.length > 1 ? meanOf(others) : (outcomes?.of(item) ?? 0)
    return outcome + (turnScore === null ? 0 : turnScoreWeight * scores.of(item))
  }
  return {
    items: items.map((item) => {
      const baseline = baselineOf(item)
      return { baseline, advantage: item.reward - baseline }
    }),
    after: [...scores.after, ...(outcomes?.after ?? [])],
  }
}

/** Prefix of the names of means of outcomes. */
const OUTCOME = 'outcome '
/** Name of a key's mean. */
const meanOfKey = (key: string): string => `key ${key}`

type Observation = { subject: string; key: string | null; value: number }
type Means = { of: (who: { subject: string }) => number; after: NamedMean[] }

/** The means of subjects, their keys and all turns, at the start of a batch (`of`) and after its observations. */
const runningMeans = (observed: readonly Observation[], before: Baselines, rules: number, prefix = ''): Means => {
  const known = (name: string): Mean | undefined => before.get(prefix + name)
  const overall = known(ALL_TURNS) ?? { value: 0, count: 0 }
  const keyOf = ({ key }: Observation): string | null => (rules < 2 ? null : key)
  const bySubject = Map.groupBy(observed, (one) => one.subject)
  const byKey = Map.groupBy(
    observed.filter((one) => keyOf(one) !== null),
    (one) => meanOfKey(keyOf(one) ?? ''),
  )
  const keys = new Map([...byKey].map(([name, own]) => [name, startMean(known(name), overall, own)]))
  const start = new Map<string, Mean>()
  for (const [subject, own] of bySubject) {
    const key = own[0] ? keyOf(own[0]) : null
    start.set(subject, startMean(known(subject), (key !== null && keys.get(meanOfKey(key))) || overall, own))
  }
  const after = (means: ReadonlyMap<string, Mean>, own: ReadonlyMap<string, readonly Observation[]>): Means['after'] =>
    [...means].map(([name, mean]) => ({ subject: prefix + name, ...advance(mean, own.get(name) ?? []) }))
  const all = { subject: prefix + ALL_TURNS, ...advance(overall, observed) }
  return {
    of: ({ subject }) => start.get(subject)?.value ?? 0,
    after: [...after(start, bySubject), ...after(keys, byKey), all],
  }
}

/** The known mean; otherwise the first one: the mean of `own`, shrunk towards `wider`. */
const startMean = (known: Mean | undefined, wider: Mean, own: readonly Observation[]): Mean => {
  const sum = own.reduce((total, { value }) => total + value, 0)
  return known ?? { value: (SHRINK * wider.value + sum) / (SHRINK + own.length), count: 0 }
}

const advance = (from: Mean, observed: readonly Observation[]): Mean => ({
  value: observed.reduce((value, one) => DECAY * value + (1 - DECAY) * one.value, from.value),
  count: from.count + observed.length,
})
