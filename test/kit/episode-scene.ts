/** The scorer's state on records of one session of a task. */
import type { Event, SessionClosed, TurnCaptured } from '@instar/events'
import { evolve, initialState, type ScorerState } from '../../services/scorer/src/app.ts'
import { captured, logged } from './scored-history.ts'

/** Of the session `s`. */
export const taskTurn = (name: string, task: string | null = 'sort', at = 10): TurnCaptured => ({
  ...captured({ session: 's', messages: [{ role: 'user', content: name }], answer: `A ${name}`, at, name }),
  task,
})

/** Of the session `s`, with its turns `1` and `2` open. */
export const taskClosed = (more: Partial<SessionClosed> = {}): SessionClosed => ({
  type: 'SessionClosed',
  session: 's',
  open: ['1', '2'].map((name) => taskTurn(name).turn),
  why: 'client',
  at: 30,
  ...more,
})

export class EpisodeScene {
  readonly state: ScorerState = initialState()
  #offset = 0

  /** Their ids. */
  read(...events: Event[]): string[] {
    return this.#fold(events).map(({ id }) => id)
  }

  /** Whether each counts. */
  counts(...events: Event[]): (boolean | undefined)[] {
    return this.#fold(events).map(({ counted }) => counted)
  }

  #fold(events: readonly Event[]): { id: string; counted: boolean | undefined }[] {
    return events.map((event) => {
      const record = logged(event, this.#offset++)
      return { id: record.id, counted: evolve(this.state, record)?.counted }
    })
  }
}
