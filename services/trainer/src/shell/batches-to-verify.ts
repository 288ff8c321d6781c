/** The batches and versions that `verify` looks at: all, or those behind the checkpoint from which it starts. */
import { batchOfUpdate, updateLine, weightLine, type BatchState, type VersionPublished } from '@instar/events'
import type { Difference } from '../core/audit.ts'
import type { AuditState } from '../core/audit-state.ts'
import type { Audit } from './audit.ts'

/** The policy's batches, and the batches of branches from which versions were promoted. */
export function* batchesToVerify(audit: Audit, version: number | null): Generator<BatchState> {
  const { state, trusted, late } = audit
  if (version === null) {
    const order = state.batches.get(state.policy)
    const { byId } = updateLine(state.updates, state.policy)
    yield* late.ids().flatMap((id) => byId.get(id) ?? [])
    for (let i = trusted?.batches ?? 0; i < (order?.length ?? 0); i += 1) {
      const batch = byId.get(order?.at(i) ?? '')
      if (batch) yield batch
    }
  }
  for (const { published } of publishedVersions(audit)) {
    const batch =
      published.number === version || (version === null && published.why === 'promotion')
        ? batchOfVersion(state, published)
        : undefined
    if (batch) yield batch
  }
}

/** Behind the checkpoint, if there is one. */
function* publishedVersions({ state, trusted }: Audit): Generator<{ published: VersionPublished; record: string }> {
  const line = weightLine(state.weights, state.policy)
  for (let number = 1 + (trusted?.versions ?? 0); number <= line.last; number += 1) {
    const found = line.versions.get(number)
    if (found?.published) yield { published: found.published, record: found.record }
  }
}

const batchOfVersion = (state: AuditState, published: VersionPublished): BatchState | undefined =>
  batchOfUpdate(updateLine(state.updates, published.source?.policy ?? state.policy), published.update)

/** The first published version whose update is missing on `updates` or has other contents. */
export const unmatchedVersion = (audit: Audit): Difference | null => {
  const { state } = audit
  for (const { published, record } of publishedVersions(audit)) {
    const batch = batchOfVersion(state, published)
    const event = batch?.update?.event
    const same =
      batch?.update?.id === published.update &&
      event?.adapter === published.adapter &&
      event.state === published.state &&
      event.blobsAt === published.blobsAt
    if (!same || (published.why === 'update' && batch?.sealed.parent.version !== published.parent))
      return {
        topic: 'weights',
        key: state.policy,
        record,
        type: 'VersionPublished',
        what: `version ${published.number} differs from the update that it names`,
      }
  }
  return null
}
