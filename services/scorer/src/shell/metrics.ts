/** The scorer's metrics; packages/process/src/metrics/table.ts describes each. */
import type { Logged, FoldOutcome, ScoresEvent } from '@instar/events'
import type { Metrics } from '@instar/process'
import { claimIn } from '../core/claims.ts'
import type { ScorerState } from '../core/state.ts'
import type { ScorerWork } from '../work.ts'

const JUDGE_REPLACED = ['failed', 'drifted']

/** Returns what is to be called with every record that is read once the scorer is ready. */
export const recordScorerMetrics = (
  metrics: Metrics,
  now: () => ScorerWork,
  held: () => Pick<ScorerState, 'claims' | 'seen' | 'questions' | 'records' | 'beginning' | 'ending'>,
  steppedDown: () => string | null,
): ((logged: Logged, outcome: FoldOutcome | null) => void) => {
  metrics.read('instar_scorer_judging', () => [[{}, now().judging]])
  metrics.read('instar_scorer_waiting', () => [[{}, now().waiting]])
  metrics.read('instar_scorer_held', () => [[{}, now().held]])
  metrics.read('instar_scored_turns_waiting', () => [[{}, now().scoredWaiting]])
  metrics.read('instar_turns_unscored', () => [[{}, now().needed]])
  metrics.read('instar_scorer_episodes_beginning', () => [[{}, held().beginning.sessions.size]])
  metrics.read('instar_scorer_episodes_ending', () => [[{}, held().ending.sessions.size]])
  metrics.read('instar_judge_replaced', () => {
    const down = steppedDown()
    return [...JUDGE_REPLACED].map((why) => [{ why }, why === down ? 1 : 0])
  })
  metrics.read('instar_value_claims', () => [[{}, held().claims.size]])
  metrics.read('instar_scored_digests', () => [[{}, held().seen.size]])
  metrics.read('instar_scored_questions', () => [[{}, held().questions.size]])
  metrics.read('instar_scored_people', () => [[{}, held().records.size]])
  metrics.read('instar_scorer_share', () => [[{}, now().share]])
  metrics.read('instar_scorer_catching_up', () => [[{}, now().catchingUp]])
  const countClaim = ({ verdicts }: Pick<ScoresEvent, 'verdicts'>): void => {
    const claim = claimIn(verdicts)
    if (claim) metrics.count('instar_value_hints_total', { outcome: claim.agreed ? 'agreed' : 'withheld' })
  }
  return ({ topic, event }, outcome) => {
    if (outcome && !outcome.counted)
      metrics.count('instar_records_ignored_total', { service: 'scorer', topic, why: outcome.why })
    else if (event.type === 'TurnSkipped') {
      metrics.count('instar_turns_skipped_total', { reason: event.reason })
      countClaim(event)
    } else if (event.type === 'SessionClosed') metrics.count('instar_sessions_closed_total', {})
    else if (event.type === 'TurnScored' || event.type === 'ScoreRevised') {
      metrics.count('instar_scores_total', { revision: event.type === 'TurnScored' ? 'first' : 'revised' })
      metrics.observe('instar_reward', {}, event.reward)
      countClaim(event)
    }
  }
}
