/** The arithmetic of a sealed batch, on those of its items that can be scored: a bad item costs itself, not its batch. */
import { InstarError, type BatchItem, type BatchSealed } from '@instar/events'
import { TURN_FAULTS, type TurnReader } from '@instar/log'
import type { LearningEngine, Model, Parent, StepResult, TrainItem } from '@instar/engine/port'
import { rehearsalItems } from './rehearsal.ts'
import { stepSettings, trainItem } from './train-item.ts'

type StepPorts = { reader: TurnReader; model: Model; learner: LearningEngine }

/**
 * Codes of errors that are the item's own: its records, among them those of earlier turns of its conversation, its tokens or
 * its gradient. Others concern the log or the engine.
 */
const ITEM_FAULTS = [...TURN_FAULTS, 'bad_request', 'context_length_exceeded', 'update_not_finite'] as const
type ItemFault = (typeof ITEM_FAULTS)[number]

export const faultOf = (error: unknown): ItemFault | null =>
  error instanceof InstarError ? (ITEM_FAULTS.find((code) => code === error.code) ?? null) : null

/**
 * The step of a batch. The figures `droppedItems` and `dropped_<code>` count the items that were left out, by the code of
 * their error; they are absent if there is none. The same items are left out whenever the batch is computed again. Throws
 * the error of the last item if no item is left.
 */
export const stepBatch = async (
  { reader, model, learner }: StepPorts,
  sealed: BatchSealed,
  parent: Parent,
  onProgress?: (share: number) => void,
): Promise<StepResult> => {
  const dropped: Record<string, number> = {}
  let last: Error | null = null
  const drop = (error: unknown): void => {
    const code = faultOf(error)
    if (code === null) throw error
    last = error as Error
    dropped.droppedItems = (dropped.droppedItems ?? 0) + 1
    dropped[`dropped_${code}`] = (dropped[`dropped_${code}`] ?? 0) + 1
  }
  const read = async (item: BatchItem): Promise<TrainItem | null> => {
    try {
      return await trainItem({ reader, model }, item, sealed.loss)
    } catch (error) {
      drop(error)
      return null
    }
  }
  const items = (await Promise.all(sealed.items.map(read))).filter((item) => item !== null)
  const rehearsed = items.length > 0 ? await rehearsalItems({ learner, model }, sealed) : []
  while (items.length > 0) {
    try {
      const result = await learner.step([...items, ...rehearsed], stepSettings(sealed), parent, onProgress)
      return { ...result, figures: { ...result.figures, ...dropped } }
    } catch (error) {
      const at = error instanceof InstarError ? error.details.item : undefined
      if (typeof at !== 'number' || !(at in items)) throw error
      drop(error)
      items.splice(at, 1)
    }
  }
  throw last ?? new InstarError('internal', `batch ${sealed.number} has no items`)
}
