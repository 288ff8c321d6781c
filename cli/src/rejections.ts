/** Updates that the gate rejected, in words: for `versions` and for the console of `up`. */

import { escapeControls } from '@instar/process/printable'

/** From how many rejections in a row on learning needs attention. */
const ALARM = 3

type Figures = Readonly<Record<string, number>>

const number = (value: number | undefined): string =>
  value === undefined ? 'not measured' : value.toFixed(Math.abs(value) < 0.1 ? 4 : 2)

const onFixed = (value: number | undefined, base: number | undefined): string =>
  base === undefined ? '' : `; on the fixed prompts ${number(value)}, base ${number(base)}`

const REASONS: Readonly<Record<string, (figures: Figures) => string>> = {
  kl_parent: ({ kl_parent }) => `KL divergence to its parent ${number(kl_parent)} nats per token`,
  kl_base: ({ kl_base }) => `KL divergence to the base ${number(kl_base)} nats per token`,
  kl_parent_fixed: ({ kl_parent_fixed }) =>
    `KL divergence to its parent on the fixed prompts ${number(kl_parent_fixed)} nats per token`,
  kl_base_fixed: ({ kl_base_fixed }) =>
    `KL divergence to the base on the fixed prompts ${number(kl_base_fixed)} nats per token`,
  content: ({ content, falls, falls_limit }) =>
    falls === undefined
      ? `content probes ${number(content)}`
      : `${falls} probes that the base answers are wrong, ${falls_limit} are too many`,
  length: ({ length, length_parent, cut }) =>
    `answers of ${number(length)} tokens, parent ${number(length_parent)}, ${number(cut)} of them cut`,
  length_low: ({ length, length_parent, length_fixed, length_fixed_base }) =>
    `answers of ${number(length)} tokens, parent ${number(length_parent)}${onFixed(length_fixed, length_fixed_base)}`,
  length_rise: ({ length_fixed, length_most }) =>
    `answers of ${number(length_fixed)} tokens to the fixed prompts; nobody asked for more than ${number(length_most)}`,
  length_fall: ({ length_fixed, length_least }) =>
    `answers of ${number(length_fixed)} tokens to the fixed prompts; nobody asked for fewer than ${number(length_least)}`,
  entropy_low: ({ entropy, entropy_parent, entropy_fixed, entropy_fixed_base }) =>
    `entropy ${number(entropy)} nats, parent ${number(entropy_parent)}${onFixed(entropy_fixed, entropy_fixed_base)}`,
  repetition: ({ repetition }) => `share of repeated 4-grams ${number(repetition)}`,
  positive_turns: ({ positive_logprob, positive_logprob_parent }) =>
    `log-probability of praised answers ${number(positive_logprob)}, parent ${number(positive_logprob_parent)}`,
  not_finite: () => 'a figure that is not finite',
  stale_parent: () => 'computed from a version that no longer serves',
}

export const rejectionReason = (reason: string, figures: Figures): string => {
  const words = REASONS[reason]
  return words ? `${reason}: ${words(figures)}` : escapeControls(reason)
}

/** Empty below ALARM rejections in a row. */
export const rejectionAlarm = (
  rejectionsInARow: number,
  last: { reason: string; figures: Figures } | undefined,
): string =>
  rejectionsInARow < ALARM || !last
    ? ''
    : `the gate has rejected ${rejectionsInARow} updates in a row; the last one: ${rejectionReason(last.reason, last.figures)}. ` +
      'Each further step is smaller; `instar rollback` returns to an earlier version\n'
