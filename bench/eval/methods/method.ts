/** How what people say changes later answers. */
import type { TrainerConfig } from '@instar/trainer'

/** A reaction that the scorer took for a complaint with a wish. `hint`: the wish as the scorer words it. */
export type Told = { person: number; words: string; hint: string }

export type Method = {
  name: string
  summary: string
  /** It is run if no methods are named. */
  byDefault: boolean
  /** The loss of the updates; null: nothing is learned. */
  loss: TrainerConfig['loss'] | null
  /** One line for each person instead of one for all. */
  separate: boolean
  /** What is put into the prompt of a session with `person`, after all that was told before; null: nothing. */
  note(told: readonly Told[], person: number): string | null
}

/** Nothing is put into the prompt. */
export const noNote: Method['note'] = () => null
