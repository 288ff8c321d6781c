/** Rows of lines, versions, head moves, rejections and freezes from records of `weights` that count. */
import { weightLine, type WeightsState } from '@instar/events/folds/weights'
import type { Logged, VersionPublished, WeightsEvent } from '@instar/events/records'
import { timestampOf, type ProjectedRows } from './rows.ts'

/** `head`: the head before the record. `state`: after it. */
export const weightsRows = (
  state: WeightsState,
  head: number,
  logged: Logged<WeightsEvent>,
  rows: ProjectedRows,
): void => {
  const { event, id } = logged
  const { policy } = event
  const at = timestampOf(event.at)
  const seq = weightLine(state, policy).moveCount
  /** The columns that are the same in each move by a publisher. */
  const published = { policy, who: 'publisher', froze: false, request: null, at, record_id: id }
  switch (event.type) {
    case 'LineStarted':
      rows.lines.push({
        policy,
        mode: event.mode,
        base_name: event.base.name,
        base_sha256: event.base.sha256,
        parent_policy: event.parent?.policy ?? null,
        parent_version: event.parent?.version ?? null,
        settings: event.settings,
        started_at: at,
        record_id: id,
      })
      rows.all_versions.push({
        policy,
        version: 0,
        parent: null,
        sha256: event.imported?.adapter ?? event.parent?.adapter ?? null,
        state: event.parent?.state ?? null,
        ...(event.imported ? { adapter_bytes: event.imported.adapterBytes } : {}),
        update_id: null,
        why: event.imported ? 'imported' : 'base',
        source_policy: event.parent?.policy ?? null,
        source_version: event.parent?.version ?? null,
        figures: {},
        published_at: at,
        record_id: id,
      })
      rows.all_head_moves.push({ ...published, seq: 0, from_version: null, to_version: 0, why: 'base' })
      break
    case 'VersionPublished':
      rows.all_versions.push(versionRow(event, id))
      rows.all_head_moves.push({ ...published, seq, from_version: head, to_version: event.number, why: event.why })
      break
    case 'VersionRejected':
      rows.all_rejections.push({
        record_id: id,
        policy,
        update_id: event.update,
        adapter: event.adapter,
        parent: event.parent,
        reason: event.reason,
        figures: event.figures,
        evidence: event.evidence,
        at,
        ...askedOf(event),
      })
      break
    case 'HeadMoved':
      rows.all_head_moves.push({
        policy,
        seq,
        from_version: head,
        to_version: event.to,
        why: event.why,
        who: event.who,
        froze: event.freeze,
        request: event.request,
        at,
        record_id: id,
      })
      break
    case 'LearningFrozen':
      rows.all_freezes.push({
        record_id: id,
        policy,
        frozen: event.on,
        why: event.why,
        who: event.who,
        request: event.request,
        at,
      })
      break
  }
}

const versionRow = (event: VersionPublished, id: string): ProjectedRows['all_versions'][number] => ({
  policy: event.policy,
  version: event.number,
  parent: event.parent,
  sha256: event.adapter,
  adapter_bytes: event.adapterBytes,
  state: event.state,
  update_id: event.update,
  why: event.why,
  source_policy: event.source?.policy ?? null,
  source_version: event.source?.version ?? null,
  figures: event.figures,
  published_at: timestampOf(event.at),
  record_id: id,
  ...askedOf(event),
})

/** Absent columns are null. */
const askedOf = ({ asked }: Pick<VersionPublished, 'asked'>): { asked_by?: string; asked_why?: string } =>
  asked ? { asked_by: asked.who, asked_why: asked.why } : {}
