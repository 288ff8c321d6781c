/**
 * The decisions of the publisher. Acceptance is one record, which also moves the head; rejection is one record; both have
 * the figures. A verdict that loses a race for the chain does not count and is decided again, with the same figures if the
 * head is the same.
 */
import {
  batchOfUpdate,
  nextVersion,
  updateLine,
  weightLine,
  type Asked,
  type BatchState,
  type LineStarted,
  type Settings,
  type UpdateComputed,
  type VersionPublished,
  type VersionRejected,
} from '@instar/events'
import { checkCandidate, type Figures, type Thresholds } from './gate.ts'
import type { PublisherState } from './state.ts'

/** The figures of one update against one head. `evidence`: the held-out turns on which they were measured. */
export type Measured = { update: string; head: number; figures: Figures; evidence: string[] }

export type Decision =
  | { do: 'append'; event: VersionPublished | VersionRejected }
  /** The policy has no line: measure the base, then append `lineStarted`. */
  | { do: 'start' }
  | { do: 'evaluate'; update: string; computed: UpdateComputed; sealed: BatchState['sealed'] }
  | { do: 'wait'; why: 'standby' | 'updates' | 'frozen' | 'not_live' }

/**
 * `assigned` false: another publisher holds the policy's partition; this one is a standby and executes only its own
 * promotions. `now`: ms since the epoch.
 */
export const decide = (
  state: PublisherState,
  measured: Measured | null,
  limits: Thresholds,
  now: number,
  assigned = true,
): Decision => {
  if (!assigned) return { do: 'wait', why: 'standby' }
  const line = weightLine(state.weights, state.policy)
  if (!line.started) return { do: 'start' }
  if (line.started.mode !== 'live') return { do: 'wait', why: 'not_live' }
  const batch = firstUnsettled(state)
  if (!batch?.update) return { do: 'wait', why: 'updates' }
  const { id, event } = batch.update
  const parent = batch.sealed.parent.version
  if (parent !== line.head)
    return {
      do: 'append',
      event: rejected(state, { update: id, computed: event, parent, reason: 'stale_parent' }, now),
    }
  if (line.frozen) return { do: 'wait', why: 'frozen' }
  const { sealed } = batch
  return decideCandidate(
    state,
    { update: id, computed: event, sealed, parent, why: 'update', source: null },
    measured,
    limits,
    now,
  )
}

type Candidate = {
  update: string
  computed: UpdateComputed
  sealed: BatchState['sealed']
  /** The head that the candidate would replace. */
  parent: number
  asked?: Asked
} & Pick<VersionPublished, 'why' | 'source'>

/** Measures a candidate against the head, then appends the gate's verdict. */
const decideCandidate = (
  state: PublisherState,
  { update, computed, sealed, parent, why, source, asked }: Candidate,
  measured: Measured | null,
  limits: Thresholds,
  now: number,
): Exclude<Decision, { do: 'start' | 'wait' }> => {
  const line = weightLine(state.weights, state.policy)
  if (!measured || measured.update !== update || measured.head !== line.head)
    return { do: 'evaluate', update, computed, sealed }
  const result = checkCandidate(measured.figures, line.bestContent, limits)
  if (!result.accepted)
    return {
      do: 'append',
      event: rejected(
        state,
        { update, computed, parent, reason: result.reason, measured, limits, ...(asked ? { asked } : {}) },
        now,
      ),
    }
  return {
    do: 'append',
    event: {
      type: 'VersionPublished',
      prev: line.chain.tip,
      policy: state.policy,
      number: nextVersion(line),
      update,
      adapter: computed.adapter,
      adapterBytes: computed.adapterBytes,
      state: computed.state,
      blobsAt: computed.blobsAt,
      parent,
      why,
      source,
      figures: { ...measured.figures },
      limits: { ...limits },
      asked: asked ?? null,
      at: now,
    },
  }
}

/**
 * The first record of a live line. `settings`: the limits, the figures of the base, and its probes (core/battery.ts).
 * `imported`: an adapter that is a part of the base, stored at `now`.
 */
export const lineStarted = (
  policy: string,
  base: LineStarted['base'],
  settings: Settings,
  now: number,
  imported: LineStarted['imported'] = null,
): LineStarted => ({
  type: 'LineStarted',
  prev: '',
  policy,
  mode: 'live',
  base,
  parent: null,
  settings,
  imported,
  at: now,
})

/** The next step of promoting a branch's last version. `measured` null: it has not been measured. */
export const decidePromotion = (
  state: PublisherState,
  { branch, asked }: { branch: string; asked: Asked },
  measured: Measured | null,
  limits: Thresholds,
  now: number,
):
  | Exclude<Decision, { do: 'start' | 'wait' }>
  | { do: 'refuse'; why: 'unknown_branch' | 'empty_branch' | 'unfinished_branch' } => {
  const line = weightLine(state.weights, state.policy)
  const weights = weightLine(state.weights, branch)
  const version = weights.versions.get(weights.last)
  if (!weights.started) return { do: 'refuse', why: 'unknown_branch' }
  if (!version?.published) return { do: 'refuse', why: 'empty_branch' }
  const updates = updateLine(state.updates, branch)
  if (updates.failed + weights.verdictCount < (weights.started.settings.batches ?? 0))
    return { do: 'refuse', why: 'unfinished_branch' }
  const { published } = version
  const source = batchOfUpdate(updates, published.update)
  if (!source?.update) return { do: 'refuse', why: 'empty_branch' }
  const { event: computed } = source.update
  return decideCandidate(
    state,
    {
      update: published.update,
      computed,
      sealed: source.sealed,
      parent: line.head,
      why: 'promotion',
      source: { policy: branch, version: version.version },
      asked,
    },
    measured,
    limits,
    now,
  )
}

/** The rejection of a candidate that cannot be measured because its blobs are missing or damaged. */
export const unmeasurable = (state: PublisherState, update: string, reason: string, now: number): VersionRejected => {
  const batch = batchOfUpdate(updateLine(state.updates, state.policy), update)
  if (!batch?.update) throw new RangeError(`update ${update} is not on the log`)
  return rejected(state, { update, computed: batch.update.event, parent: batch.sealed.parent.version, reason }, now)
}

const firstUnsettled = (state: PublisherState): BatchState | undefined => {
  for (const id of state.unsettled) return updateLine(state.updates, state.policy).byId.get(id)
  return undefined
}

type Rejection = {
  update: string
  computed: UpdateComputed
  parent: number
  reason: string
  /** Absent if the candidate was not measured. */
  measured?: Measured
  limits?: Settings
  asked?: Asked
}

const rejected = (state: PublisherState, rejection: Rejection, now: number): VersionRejected => {
  const { update, computed, parent, reason, measured, limits = {}, asked = null } = rejection
  return {
    type: 'VersionRejected',
    prev: weightLine(state.weights, state.policy).chain.tip,
    policy: state.policy,
    update,
    adapter: computed.adapter,
    parent,
    reason,
    figures: { ...measured?.figures },
    evidence: measured?.evidence ?? [],
    limits: { ...limits },
    asked,
    at: now,
  }
}
