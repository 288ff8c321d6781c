/** Codes of the log in words. A code that is not listed is shown as it is. */

/** Why a turn is not trained on. */
const UNTRAINED: Readonly<Record<string, string>> = {
  // Of the turn, when it was captured.
  opted_out: 'The client asked not to train on it.',
  off: 'Learning is switched off at this gateway, or the API key has no scope train.',
  side: 'A side request of the agent (a title, a summary), not part of the conversation.',
  no_tokens: 'The engine did not say which tokens it sampled.',
  contaminated: 'The prompt holds text that looks like control tokens.',
  constrained: 'The answer was constrained to a format, so it is not the model’s own distribution.',
  reweighted: 'Penalties or a bias changed the distribution that it was sampled from.',
  greedy: 'It was sampled at a temperature near 0, so its log-probs say little.',
  empty: 'The answer is empty.',
  not_sampled: 'This gateway’s engine did not sample it.',
  aborted: 'The answer was cut short.',
  // Of its tokens: what the engine, or the file that was imported, says of them.
  no_ids: 'Its token ids were not reported.',
  no_logprobs: 'There is not one log-prob for each of its tokens.',
  no_prompt_ids: 'The token ids of its prompt were not reported.',
  no_token_count: 'The engine did not say how many tokens it sampled.',
  token_count_differs: 'The engine counted other tokens than it reported.',
  other_logprobs: 'The engine’s log-probs are not those of the distribution that it samples from.',
  bad_logprobs: 'A log-prob is out of the range that sampling gives, or all of them are 0.',
  bad_ids: 'A token id is none of the model’s vocabulary.',
  too_many_ids: 'The engine reported more tokens than were asked for.',
  lengths_differ: 'Its ids and log-probs are not equally many.',
  not_this_vocabulary: 'A token id is not in this model’s vocabulary.',
  text_differs: 'Its tokens do not spell its text.',
  no_version: 'Nobody said which version sampled it.',
  foreign_version: 'A version of another policy sampled it.',
  unknown_version: 'The version that sampled it is not on this log.',
  other_adapter: 'The version that sampled it has another adapter here.',
  off_prefix: 'The prompt does not continue the tokens of the turn before.',
  // Of the score.
  no_next_state: 'Nothing followed the answer, so there was nothing to judge it by.',
  abstained: 'No judge had an opinion about it.',
  judge_failed: 'Every judge failed.',
  discarded: 'The episode was aborted.',
  overloaded: 'The judge was too slow, and newer turns went first.',
  surplus: 'No judge was asked: more scored turns waited already than updates could take.',
  stale: 'The model has moved on since it was sampled.',
  duplicate: 'The same answer to the same request got the same reaction before.',
  asked_for_praise: 'The answer asks for the praise that followed.',
  degenerate: 'The answer repeats itself.',
  unagreed: 'The score rests on a value that nobody else has confirmed.',
  asked_alone: 'Nobody else asks this question, and this person’s scores on it are enough.',
  contradicted: 'The person said the opposite before of most answers of this kind.',
  unreadable: 'Its record cannot be read.',
  // Of the batch.
  not_on_lineage: 'The version that sampled it is not an ancestor of the head any more (a rollback).',
  unusable: 'It can be in no later batch.',
  other_policy: 'It belongs to another policy.',
  not_trainable: 'It was recorded as one that is not trained on.',
}

export const UNTRAINED_CODES: readonly (readonly [code: string, words: string])[] = Object.entries(UNTRAINED)

export const untrained = (code: string | null | undefined): string | null =>
  code ? (UNTRAINED[code] ?? code.replaceAll('_', ' ')) : null

/** Why the gate rejected an update. */
const REJECTED: Readonly<Record<string, string>> = {
  not_finite: 'a figure is not finite',
  serving_differs: 'the engine that serves measures something else',
  kl_parent: 'too far from its parent in one step',
  kl_parent_fixed: 'too far from its parent in one step',
  kl_base: 'too far from the base',
  kl_base_fixed: 'too far from the base',
  content: 'it lost probes',
  length: 'answers became too long',
  length_rise: 'answers became too long',
  length_low: 'answers became too short',
  length_fall: 'answers became too short',
  entropy_low: 'answers became too uniform',
  repetition: 'answers repeat themselves',
  positive_turns: 'answers that were liked became less likely',
  stale_parent: 'the head moved meanwhile',
}

export const gateReason = (code: string | null): string => (code === null ? '' : (REJECTED[code] ?? code))

/** What the trainer does while it computes nothing. */
const WAITS: Readonly<Record<string, string>> = {
  starting: 'Starting',
  standby: 'Another trainer works; this one stands by',
  no_line: 'Waiting for the first record of the version line',
  not_live: 'The line is a branch',
  verdict: 'Waiting for the gate’s verdict on the last update',
  frozen: 'Learning is frozen',
  turns: 'Waiting for scored turns',
  share: 'Waiting for turns of other people: one has its share of the batch',
  append: 'Writing to the log',
  compute: 'Computing an update',
  updates: 'Waiting for an update',
  start: 'Measuring the base model',
  evaluate: 'Measuring a candidate',
  trainer_lost: 'The training server does not answer; asking it again',
  trainer_full: 'The training server has no room for another model',
  trainer_state_lost: 'The training server has lost the checkpoint that training continues from',
  trainer_denied: 'The training server refuses the trainer, or its answers do not fit; asking it again',
  trainer_failed: 'The training server fails to prepare a model; asking it again',
  parent_lost: 'The log has lost the adapter or optimizer state that training continues from',
  other: 'Retrying after an error',
}

/** Codes that have words. */
export const WORDED = { untrained: UNTRAINED, rejected: REJECTED, waits: WAITS } as const

export const waits = (code: string | null): string => (code === null ? 'In another process' : (WAITS[code] ?? code))

const STATUS: Readonly<Record<string, string>> = {
  serving: 'Answers requests now',
  superseded: 'A later version grew from it',
  rolled_back: 'Left behind by a rollback',
  replayed: 'The newest of a branch',
}

export const status = (code: string): string => STATUS[code] ?? code
