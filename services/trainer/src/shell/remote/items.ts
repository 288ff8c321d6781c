/** The items of a batch as rows of a Tinker server, and the log-probabilities of their answers. */
import { getBlob, putBlob, type EventLog } from '@instar/log'
import { checkItem } from '@instar/policy/step-check'
import {
  InstarError,
  type BatchItem,
  type BatchSealed,
  type ScoredRow,
  type StoredBlob,
  type TrainerScored,
} from '@instar/events'
import type { TrainItem } from '@instar/engine/port'
import { rowFits } from '@instar/tinker'
import type { Capabilities, ScoreRow } from '@instar/tinker/port'
import type { SharedRow } from '../../core/shared-rows.ts'
import { faultOf } from '../step-items.ts'
import { stepSettings, trainItem } from '../train-item.ts'
import type { ReadPorts } from './ports.ts'

export type RemoteItem = { turn: string; item: TrainItem }
/** Of a server: what bounds the length of a row. */
type Limits = Pick<Capabilities, 'wire' | 'contextLength'>
type Dropped = TrainerScored['dropped']

/** Reason of an item whose log-probabilities are not finite: it was scored. Items with other reasons were not. */
export const NOT_FINITE = 'update_not_finite'

/** An item that exceeds the server's context, or what it takes in one request, costs itself, not its batch. */
const checkSize = ({ prompt, hintPrompt, completion }: TrainItem, { wire, contextLength }: Limits): void => {
  const tokens = Math.max(prompt.length, hintPrompt?.length ?? 0) + completion.length
  if (typeof contextLength === 'number' && tokens > contextLength)
    throw new InstarError(
      'context_length_exceeded',
      `a turn of ${tokens} tokens exceeds the context of ${contextLength} that the training server states`,
      { tokens, context: contextLength },
    )
  const fits =
    rowFits(wire, scoreRow(prompt, completion), true) &&
    (hintPrompt === null || rowFits(wire, scoreRow(hintPrompt, completion), false))
  if (fits) return
  throw new InstarError(
    'context_length_exceeded',
    `a turn of ${tokens} tokens does not fit a request of ${wire.bytesMax} bytes, the limit of the training server`,
    { tokens },
  )
}

const readItem = async (ports: ReadPorts, item: BatchItem, at: number, sealed: BatchSealed): Promise<TrainItem> => {
  const read = await trainItem(ports, item, sealed.loss)
  checkItem(read, at, ports.model, stepSettings(sealed))
  return read
}

/** The items of a batch that can be scored, and the others with the codes of their errors. */
export const readItems = async (
  ports: ReadPorts,
  sealed: BatchSealed,
  limits: Limits,
): Promise<{ items: RemoteItem[]; dropped: Dropped }> => {
  const items: RemoteItem[] = []
  const dropped: Dropped = []
  const read = await Promise.all(
    sealed.items.map(async (item, at) => {
      try {
        const found = await readItem(ports, item, at, sealed)
        checkSize(found, limits)
        return { turn: item.turn, item: found, fault: null }
      } catch (error) {
        const fault = faultOf(error)
        if (fault === null) throw error
        return { turn: item.turn, item: null, fault }
      }
    }),
  )
  for (const { turn, item, fault } of read)
    if (item) items.push({ turn, item })
    else dropped.push({ turn, reason: fault ?? '' })
  return { items, dropped }
}

/** The items of recorded rows, in their order. */
export const itemsOf = async (
  ports: ReadPorts,
  sealed: BatchSealed,
  rows: readonly { turn: string }[],
): Promise<RemoteItem[]> => {
  const byTurn = new Map(sealed.items.map((item, at) => [item.turn, { item, at }]))
  return Promise.all(
    rows.map(async ({ turn }) => {
      const found = byTurn.get(turn)
      if (!found) throw new Error(`batch ${sealed.number} has no turn ${turn}`)
      return { turn, item: await readItem(ports, found.item, found.at, sealed) }
    }),
  )
}

/** The answer after `prompt` as a row: position i predicts token i + 1, so the answer's tokens are the last targets. */
export const scoreRow = (prompt: readonly number[], completion: readonly number[]): ScoreRow => ({
  tokens: [...prompt, ...completion.slice(0, -1)],
  targets: [...prompt.slice(1), ...completion],
})

export const rowOf = ({ ids }: SharedRow): ScoreRow => ({ tokens: ids.slice(0, -1), targets: ids.slice(1) })

export const rowsOf = (items: readonly RemoteItem[]): ScoredRow[] =>
  items.map(({ turn, item }) => ({ turn, tokens: item.completion.length }))

/** Stores arrays one after another as little-endian float32. */
export const putLogprobs = async (
  log: EventLog,
  parts: readonly Float32Array[],
  at: number,
  signal: AbortSignal,
): Promise<StoredBlob> => {
  const total = parts.reduce((sum, part) => sum + part.length, 0)
  const bytes = new Uint8Array(4 * total)
  const view = new DataView(bytes.buffer)
  let next = 0
  for (const part of parts) for (const value of part) view.setFloat32(4 * next++, value, true)
  return { sha256: await putBlob(log, bytes, at, signal), bytes: bytes.length }
}

/** Reads what `putLogprobs` stored; `tokens`: of each part. Throws `missing_blob`. */
export const getLogprobs = async (
  log: EventLog,
  { sha256 }: StoredBlob,
  at: number,
  tokens: readonly number[],
): Promise<Float32Array[]> => {
  const bytes = await getBlob(log, sha256, at)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let next = 0
  return tokens.map((count) => Float32Array.from({ length: count }, () => view.getFloat32(4 * next++, true)))
}
