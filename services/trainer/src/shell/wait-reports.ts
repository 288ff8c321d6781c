/** Reports why a batch waits, once for each reason, for the line in the trainer's log. */
import { InstarError } from '@instar/events'

/**
 * Called when a batch that cannot be computed begins to wait for what every batch needs: the parent's state, or a training
 * server that takes the trainer.
 */
export type OnWait = (wait: { number: number; reason: string }) => void

/** Errors that are not a batch's: the next one would fail as well, so none is used up and an operator has to act. */
const WAITED_FOR: readonly string[] = ['parent_lost', 'trainer_state_lost', 'trainer_denied', 'trainer_failed']

export type WaitReports = {
  /** The computation of batch `number` is repeated after `error`. */
  failed(number: number, error: unknown): void
  /** A computation succeeded: the next wait is reported again. */
  ended(): void
}

export const createWaitReports = (onWait: OnWait | undefined): WaitReports => {
  let last = ''
  return {
    failed(number, error) {
      if (!(error instanceof InstarError) || !WAITED_FOR.includes(error.code)) return
      const reason = `${error.code}: ${error.message}`
      if (reason !== last) onWait?.({ number, reason })
      last = reason
    },
    ended() {
      last = ''
    },
  }
}
