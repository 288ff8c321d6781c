/** Whether verdicts, promotions and commands of an admin were correct, given what their writers had read. */
import type { HeadMoved, LearningFrozen, VersionPublished, VersionRejected } from '@instar/events'
import type { Ordered } from '../../../services/gateway/src/admin/core/admin.ts'
import { bestContent, updateIn, type Batch, type Line } from './chains.ts'
import type { Decided } from './decision.ts'
import type { Past } from './past.ts'

type Says = (holds: boolean, problem: string) => void
/** The maximum distance of the content score below that of the best accepted version. */
const CONTENT_DROP = 0.04

export const rightVerdict = (
  past: Past,
  decided: Decided,
  event: VersionPublished | VersionRejected,
  branch: string,
  says: Says,
): void => {
  const line = past.line(event.policy)
  const { batches } = past.training(event.policy)
  const batch = updateIn(batches, event.update)
  const name = `the verdict on ${event.update.slice(0, 8)}`
  says(event.prev === line.tip, `${name} does not follow what its publisher had read`)
  says(!line.verdicts.some((one) => one.event.update === event.update), `${name} is a second one`)
  if (batch) rightUpdate(decided, event, line, batch, batches, name, says)
  else rightPromotion(past, event, line, branch, name, says)
  if (event.type === 'VersionRejected' && event.reason === 'stale_parent') return
  const why = whyRejected(decided, event.update, line, name, says)
  if (event.type === 'VersionRejected')
    return says(event.reason === why, `${name} is ${event.reason}, found was ${why}`)
  says(why === null, `${name} is a version, found was ${why}`)
  says(
    event.number === Math.max(...line.versions.map(({ number }) => number)) + 1,
    `${name} makes version ${event.number} behind ${line.versions.length}`,
  )
}

const rightUpdate = (
  { share }: Decided,
  event: VersionPublished | VersionRejected,
  line: Line,
  batch: ReturnType<typeof updateIn> & object,
  batches: readonly Batch[],
  name: string,
  says: Says,
): void => {
  const first = batches.find(
    ({ outcome }) =>
      outcome?.event.type === 'UpdateComputed' && !line.verdicts.some((one) => one.event.update === outcome.id),
  )
  const parent = batch.sealed.parent.version
  says(share.has(0), `${name} is another's to give`)
  says(first?.outcome?.id === event.update, `${name} comes before that on ${first?.outcome?.id.slice(0, 8)}`)
  says(
    event.parent === parent && event.adapter === batch.outcome.event.adapter,
    `${name} is on other bytes than its update`,
  )
  if (event.type === 'VersionRejected' && event.reason === 'stale_parent')
    return says(parent !== line.head, `${name} calls the head ${line.head} stale`)
  says(parent === line.head, `${name} takes ${parent} for the head, which is ${line.head}`)
  says(!line.frozen, `${name} is given while learning is frozen`)
}

const rightPromotion = (
  past: Past,
  event: VersionPublished | VersionRejected,
  line: Line,
  branch: string,
  name: string,
  says: Says,
): void => {
  const from = past.line(branch)
  const made = past.training(branch)
  const last = from.versions.at(-1)
  says(last?.update === event.update, `${name} is on nothing that was computed`)
  says(
    event.parent === line.head && event.adapter === last?.adapter,
    `${name} promotes on ${event.parent}, the head is ${line.head}`,
  )
  const settled =
    made.batches.filter(({ outcome }) => outcome?.event.type === 'UpdateFailed').length + from.verdicts.length
  says(settled >= (from.started?.settings['batches'] ?? 0), `${name} promotes a branch that is not finished`)
  if (event.type === 'VersionPublished')
    says(
      event.why === 'promotion' && event.source?.policy === branch && event.source.version === last?.number,
      `${name} says it is from elsewhere`,
    )
}

/** Null: it passes the gate. */
const whyRejected = (
  { note: { measured, flaw } }: Decided,
  update: string,
  line: Line,
  name: string,
  says: Says,
): string | null => {
  says(measured?.update === update && measured.head === line.head, `${name} rests on figures of another update or head`)
  const content = measured?.figures.content ?? Infinity
  if (flaw && ['not_finite', 'kl_parent', 'kl_base'].includes(flaw)) return flaw
  return content < bestContent(line) - CONTENT_DROP ? 'content' : (flaw ?? null)
}

export const rightCommand = (
  past: Past,
  { note: { ordered } }: Decided,
  event: HeadMoved | LearningFrozen,
  says: Says,
): void => {
  const line = past.line(event.policy)
  const name = `command ${event.request}`
  says(event.prev === line.tip, `${name} does not follow what its gateway had read`)
  if (!ordered || event.request !== ordered.request || line.requests.includes(event.request))
    return says(false, `${name} is done again`)
  const { command } = ordered
  if (event.type === 'LearningFrozen')
    return says(
      command.do === 'freeze' && event.on === command.on && line.frozen !== event.on,
      `${name} freezes ${event.on}`,
    )
  says(
    command.do === 'rollback' && event.to === command.to && event.freeze === command.freeze,
    `${name} moves to ${event.to}, freezes ${event.freeze}`,
  )
  says(
    event.from === line.head && line.versions.some(({ number }) => number === event.to),
    `${name} moves from ${event.from} to ${event.to}, the head is ${line.head}`,
  )
  says(event.to !== line.head || (event.freeze && !line.frozen), `${name} moves nothing`)
}

/** Whether this response to a command without a record was correct. */
export const rightAnswer = (past: Past, { command, policy, request }: Ordered, refused: string | null): boolean => {
  const line = past.line(policy)
  if (refused === 'no_line') return !line.started
  if (refused === 'unknown_version')
    return command.do === 'rollback' && !line.versions.some(({ number }) => number === command.to)
  if (refused !== null) return false
  if (line.requests.includes(request)) return true
  return command.do === 'freeze'
    ? line.frozen === command.on
    : line.head === command.to && (line.frozen || !command.freeze)
}
