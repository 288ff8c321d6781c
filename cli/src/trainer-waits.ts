/** What the trainer waits for, in words, and as a gateway of its process knows it. */
import { InstarError } from '@instar/events/errors'
import { requestAdmin } from './admin-client.ts'
import type { Config } from './config.ts'

/** By the labels of `instar_trainer_waits`. */
export const TRAINER_WAITS: Readonly<Record<string, string>> = {
  standby: 'another trainer works',
  no_line: 'waits for the first record of the line',
  verdict: 'waits for the gate',
  frozen: 'frozen',
  turns: 'waits for scored turns',
  share: 'waits for turns of other people',
  append: 'writes to the log',
  compute: 'computes an update',
  trainer_lost: 'the training server does not answer',
  trainer_full: 'the training server has no room for another model',
  trainer_state_lost: 'the training server has lost the parent’s checkpoint',
  trainer_denied: 'the training server refuses the trainer, or its answers do not fit',
  trainer_failed: 'the training server fails to prepare a model',
  parent_lost: 'the log has lost the parent’s adapter or state',
  other: 'tries again after an error, which the trainer’s log names',
}

/** Labels of a trainer that computes, or that leaves it to another one. */
const COMPUTES: readonly string[] = ['compute', 'append', 'standby']

type Now = {
  policy?: string
  head?: number
  gauges?: Readonly<Record<string, { labels: { for?: string }; value: number }[]>>
}

const TIMEOUT_MS = 2000

/**
 * Why a sealed batch is not computed, in words; null: it is, or no gateway that answers says otherwise, as where the trainer
 * is a process of its own. `line`: that of the log; a gateway of another one is not believed.
 */
export const whyBatchWaits = async (config: Config, line: { policy: string; head: number }): Promise<string | null> => {
  let now: Now
  try {
    now = await requestAdmin<Now>(config, '/v1/dashboard/now', undefined, { timeoutMs: TIMEOUT_MS })
  } catch (error) {
    if (error instanceof InstarError) return null
    throw error
  }
  if (now.policy !== line.policy || now.head !== line.head) return null
  const label = now.gauges?.['instar_trainer_waits']?.find(({ value }) => value > 0)?.labels.for
  return label === undefined || COMPUTES.includes(label) ? null : (TRAINER_WAITS[label] ?? label.replaceAll('_', ' '))
}
