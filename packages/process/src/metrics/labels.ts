/** Label values and histogram bounds of the table of metrics. */
import { TOPICS } from '@instar/events/flow'

/** The values of a label, or the maximum number of its values. */
export type LabelValues = readonly string[] | { readonly most: number }

export type MetricEntry = {
  type: 'counter' | 'gauge' | 'histogram'
  /** The service that exports it; `process`: all services. */
  of: 'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections' | 'process'
  help: string
  labels?: Readonly<Record<string, LabelValues>>
  /** Upper bounds of a histogram, in the metric's unit. */
  buckets?: readonly number[]
}

export const TOPIC = { topic: TOPICS } as const
/** States of which there are checkpoints. */
export const CHECKPOINTED = ['scorer', 'trainer', 'publisher', 'gateway', 'audit'] as const
export const SERVICE = ['gateway', 'scorer', 'trainer', 'publisher'] as const
/** For codes and reasons in records, which newer builds may extend. */
export const FEW = { most: 32 } as const

export const SHORT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
export const FIRST_TOKEN_SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
]
export const PER_TOKEN_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5,
]
export const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
export const UPDATE_SECONDS = [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200]

export const TRAINER_WAITS = [
  'starting',
  'standby',
  'no_line',
  'not_live',
  'verdict',
  'frozen',
  'turns',
  'share',
  'append',
  'compute',
  'trainer_lost',
  'trainer_full',
  'trainer_state_lost',
  'trainer_denied',
  'trainer_failed',
  'parent_lost',
  'other',
] as const
export const PUBLISHER_WAITS = [
  'starting',
  'standby',
  'updates',
  'frozen',
  'not_live',
  'start',
  'evaluate',
  'append',
  'other',
] as const
