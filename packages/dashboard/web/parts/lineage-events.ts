/** What happened to the lineage: who moved the head, promoted, rejected, froze and resumed, when and why. */
import { plainName } from '../format.ts'
import { html, type Children } from '../html.ts'
import { gateReason } from '../reasons.ts'
import type { Lineage, MoveRow, RefusalRow, UpdateRow } from '../rows.ts'

export type LineageEventKind =
  | 'published'
  | 'rejected'
  | 'failed'
  | 'running'
  | 'rollback'
  | 'promotion'
  | 'refused'
  | 'freeze'
  | 'thaw'
/** `version`: the head when it happened, so that it has a place among the versions. `why` null: none was given. */
export type LineageEvent = {
  at: string
  kind: LineageEventKind
  version: number
  who: string
  why: string | null
  what: Children
  /** `what` without links. */
  said: string
}

/** Versions that the gate let through move the head in its name; no person has it. */
export const GATE = 'publisher'
/** What a command records where no reason was given. */
const NO_REASON = new Set(['', 'rollback', 'freeze', 'thaw', 'update', 'promotion'])
const reasonOf = (why: string): string | null => (NO_REASON.has(why) ? null : why)

const versionLink = (version: number | null): Children => html`<a href=${`#/versions/${version}`}>${version}</a>`

const ofUpdate = ({ number, status, version, parent_version, reason, items, ...times }: UpdateRow): LineageEvent => {
  const at = times.decided_at ?? times.finished_at ?? times.sealed_at
  const why = reason === null ? null : gateReason(reason)
  const base = { at, version: version ?? parent_version, why, who: 'the gate' }
  const trained = `, trained on ${items} turns`
  switch (status) {
    case 'accepted':
      return {
        ...base,
        kind: 'published',
        what: html`Version ${versionLink(version)} was published${trained}`,
        said: `version ${version} published`,
      }
    case 'rejected': {
      const said = `Update ${number} was rejected by the gate`
      return { ...base, kind: 'rejected', what: said, said }
    }
    case 'failed': {
      const said = `Update ${number} failed`
      return { ...base, kind: 'failed', who: 'the trainer', what: said, said }
    }
    default: {
      const said = `Update ${number} of ${items} turns is ${status === 'computed' ? 'at the gate' : 'being computed'}`
      return { ...base, kind: 'running', who: 'the trainer', what: said, said }
    }
  }
}

const promotionOf = ({ to_version, branch, asked_by, asked_why, at }: MoveRow): LineageEvent => {
  const from = branch === null ? 'a branch' : `the branch ${plainName(branch)}`
  const by = asked_by === null ? '' : ` for ${plainName(asked_by)}`
  return {
    at,
    kind: 'promotion',
    version: to_version,
    who: asked_by === null ? 'the gate' : plainName(asked_by),
    why: asked_why === null ? null : reasonOf(asked_why),
    what: html`Version ${versionLink(to_version)} was promoted from ${from}${by}`,
    said: `version ${to_version} promoted from ${from}${by}`,
  }
}

const ofRefusal = ({ reason, parent, asked_by, asked_why, branch, at }: RefusalRow): LineageEvent => {
  const from = branch === null ? 'a branch' : plainName(branch)
  const who = plainName(asked_by)
  const said = `The gate rejected the promotion of ${from} (${gateReason(reason)}) for ${who}`
  return { at, kind: 'refused', version: parent, who, why: reasonOf(asked_why), what: said, said }
}

const ofMove = (move: MoveRow): LineageEvent | null => {
  const { from_version, to_version, why, froze, at } = move
  if (from_version === null || (move.who === GATE && why !== 'promotion')) return null
  if (move.who === GATE) return promotionOf(move)
  const who = plainName(move.who)
  const freezing = froze ? ', and froze learning' : ''
  return {
    at,
    kind: 'rollback',
    version: from_version,
    who,
    why: reasonOf(why),
    what: html`${who} moved the head from version ${versionLink(from_version)} to
      ${' '}${versionLink(to_version)}${freezing}`,
    said: `${who} moved the head from version ${from_version} to ${to_version}`,
  }
}

export type Events = Pick<Lineage, 'updates' | 'moves' | 'freezes' | 'refusals'>

/** Newest first. Publications that a move of a promotion tells are left to that. */
export const lineageEvents = ({ updates, moves, freezes, refusals }: Events): LineageEvent[] => {
  const headAt = (at: string): number => moves.find((move) => move.at <= at)?.to_version ?? 0
  return [
    ...updates.map(ofUpdate),
    ...moves.flatMap((move) => ofMove(move) ?? []),
    ...refusals.map(ofRefusal),
    ...freezes.map(({ frozen, who: name, why, at }): LineageEvent => {
      const who = plainName(name)
      const said = `${who} ${frozen ? 'froze' : 'resumed'} learning`
      const kind = frozen ? 'freeze' : 'thaw'
      return { at, kind, version: headAt(at), who, why: reasonOf(why), what: said, said }
    }),
  ].toSorted((a, b) => b.at.localeCompare(a.at))
}

/** With the reason, in quotation marks where a person gave it. */
export const eventText = ({ kind, what, why }: LineageEvent): Children =>
  why === null
    ? html`<span>${what}</span>`
    : html`<span>${what}: ${kind === 'rejected' || kind === 'failed' ? why : `“${why}”`}</span>`
