/**
 * The gate's decisions. Accepting is one record that also moves the head; rejecting is one record; both
 * carry the figures. Only what was decided on the chain's latest record counts, so a verdict that was
 * overtaken is decided again, with the same figures while the head is the same.
 */
import {
  batchOfUpdate,
  nextVersion,
  updateLine,
  weightLine,
  type BatchState,
  type LineStarted,
  type Settings,
  type UpdateComputed,
  type VersionPublished,
  type VersionRejected,
} from '@instar/events'
import { rule, type Figures, type Thresholds } from './gate.ts'
import type { PublisherState } from './state.ts'

/** What was measured of one update against one head. `evidence`: held-out turns used. */
export type Measured = { update: string; head: number; figures: Figures; evidence: string[] }

export type Decision =
  | { do: 'append'; event: VersionPublished | VersionRejected }
  /** Nothing is on the line yet: measure the base, then append `lineStarted`. */
  | { do: 'start' }
  | { do: 'evaluate'; update: string; computed: UpdateComputed; sealed: BatchState['sealed'] }
  | { do: 'wait'; why: 'standby' | 'updates' | 'frozen' | 'not_live' }

/** `assigned` false: another publisher owns this policy and this one only handles promotions that it was asked for. */
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
  return gated(
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
  /** The head that it would replace. */
  parent: number
} & Pick<VersionPublished, 'why' | 'source'>

/** The gate's verdict on an update that may become the head, once it is measured against the head. */
const gated = (
  state: PublisherState,
  { update, computed, sealed, parent, why, source }: Candidate,
  measured: Measured | null,
  limits: Thresholds,
  now: number,
): Exclude<Decision, { do: 'start' | 'wait' }> => {
  const line = weightLine(state.weights, state.policy)
  if (!measured || measured.update !== update || measured.head !== line.head)
    return { do: 'evaluate', update, computed, sealed }
  const ruling = rule(measured.figures, line.bestContent, limits)
  if (!ruling.accepted)
    return {
      do: 'append',
      event: rejected(state, { update, computed, parent, reason: ruling.reason, measured }, now),
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
      at: now,
    },
  }
}

/** The first record of a live line; `content` of the base goes into its settings. */
export const lineStarted = (
  policy: string,
  base: LineStarted['base'],
  settings: Settings,
  now: number,
): LineStarted => ({
  type: 'LineStarted',
  prev: '',
  policy,
  mode: 'live',
  base,
  parent: null,
  settings,
  at: now,
})

/** A branch's last version through the same gate. Null figures: it must be measured first. */
export const decidePromotion = (
  state: PublisherState,
  branch: string,
  measured: Measured | null,
  limits: Thresholds,
  now: number,
):
  | Exclude<Decision, { do: 'start' | 'wait' }>
  | { do: 'refuse'; why: 'unknown_branch' | 'empty_branch' | 'unfinished_branch' } => {
  const line = weightLine(state.weights, state.policy)
  const from = weightLine(state.weights, branch)
  const version = from.versions.get(from.last)
  if (!from.started) return { do: 'refuse', why: 'unknown_branch' }
  if (!version?.published) return { do: 'refuse', why: 'empty_branch' }
  const made = updateLine(state.updates, branch)
  if (made.failed + from.verdictCount < (from.started.settings.batches ?? 0))
    return { do: 'refuse', why: 'unfinished_branch' }
  const { published } = version
  const source = batchOfUpdate(made, published.update)
  if (!source?.update) return { do: 'refuse', why: 'empty_branch' }
  const { event: computed } = source.update
  return gated(
    state,
    {
      update: published.update,
      computed,
      sealed: source.sealed,
      parent: line.head,
      why: 'promotion',
      source: { policy: branch, version: version.version },
    },
    measured,
    limits,
    now,
  )
}

/** A candidate that cannot be measured (its bytes are missing or damaged) is rejected, and learning continues. */
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
  /** Absent: it was not measured. */
  measured?: Measured
}

const rejected = (state: PublisherState, rejection: Rejection, now: number): VersionRejected => {
  const { update, computed, parent, reason, measured } = rejection
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
    at: now,
  }
}
