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

/** An item that was left out. `why`: the message of its error. */
type LeftOut = { turn: string; code: ItemFault; why: string }

/**
 * The step of a batch, and the items that were left out. The figures `droppedItems` and `dropped_<code>` count these by the
 * code of their error; they are absent if there is none. The same items are left out whenever the batch is computed again.
 * Throws the error of the last item if no item is left.
 */
export const stepBatch = async (
  { reader, model, learner }: StepPorts,
  sealed: BatchSealed,
  parent: Parent,
  onProgress?: (share: number) => void,
): Promise<StepResult & { leftOut: LeftOut[] }> => {
  const dropped: Record<string, number> = {}
  const leftOut: LeftOut[] = []
  let last: Error | null = null
  const drop = ({ turn }: BatchItem, error: unknown): void => {
    const code = faultOf(error)
    if (code === null) throw error
    last = error as Error
    leftOut.push({ turn, code, why: last.message })
    dropped.droppedItems = (dropped.droppedItems ?? 0) + 1
    dropped[`dropped_${code}`] = (dropped[`dropped_${code}`] ?? 0) + 1
  }
  const read = async (of: BatchItem): Promise<{ of: BatchItem; item: TrainItem } | null> => {
    try {
      return { of, item: await trainItem({ reader, model }, of, sealed.loss) }
    } catch (error) {
      drop(of, error)
      return null
    }
  }
  const items = (await Promise.all(sealed.items.map(read))).filter((item) => item !== null)
  const rehearsed = items.length > 0 ? await rehearsalItems({ learner, model }, sealed) : []
  while (items.length > 0) {
    try {
      const all = [...items.map(({ item }) => item), ...rehearsed]
      const result = await learner.step(all, stepSettings(sealed), parent, onProgress)
      return { ...result, figures: { ...result.figures, ...dropped }, leftOut }
    } catch (error) {
      const at = error instanceof InstarError ? error.details.item : undefined
      const refused = typeof at === 'number' ? items[at] : undefined
      if (typeof at !== 'number' || !refused) throw error
      drop(refused.of, error)
      items.splice(at, 1)
    }
  }
  throw last ?? new InstarError('internal', `batch ${sealed.number} has no items`)
}

/** Items that a difference names, of each code. */
const MOST_NAMED = 3

/** What the two computations left out of the batch, by code, where it is not the same number of items. */
export const otherItems = (
  recorded: Readonly<Record<string, number>>,
  { figures, leftOut }: { figures: object; leftOut: readonly LeftOut[] },
): string[] => {
  const names = new Set(
    [...Object.keys(recorded), ...Object.keys(figures)].filter((name) => name.startsWith('dropped_')),
  )
  return [...names].toSorted().flatMap((name) => {
    const own = leftOut.filter(({ code }) => `dropped_${code}` === name)
    const before = recorded[name] ?? 0
    if (own.length === before) return []
    const turns = own.slice(0, MOST_NAMED).map(({ turn, why }) => `turn ${turn}: ${why}`)
    if (own.length > MOST_NAMED) turns.push(`${own.length - MOST_NAMED} more`)
    return [`${name} is ${own.length}, recorded ${before}${turns.length > 0 ? ` (${turns.join('; ')})` : ''}`]
  })
}
