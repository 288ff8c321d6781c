/** The reader of turns' records, with those of active sessions in memory. */
import { createTurnReader, isCutAway, logWith, type EventLog, type TurnReader } from '@instar/log'
import type { GatewayConfig } from '../config.ts'
import type { SessionIndex } from './core/session-index.ts'

/** Bytes of request bodies cached per record: later requests of a session repeat its bodies. */
const KEPT_BODY_BYTES = 32 * 1024

/**
 * A turn that was cut from the log, and that no archive gives, is `unknown_turn` as one that was never there: a conversation goes
 * on as an unknown one.
 */
export const cachedReader = (
  log: EventLog,
  index: Pick<SessionIndex, 'fold'>,
  { records, recentRecordBytes }: Pick<GatewayConfig, 'records' | 'recentRecordBytes'>,
): TurnReader =>
  createTurnReader(
    logWith(log, {
      at: (position) =>
        log.at(position).catch((error: unknown) => {
          if (isCutAway(error)) return undefined
          throw error
        }),
    }),
    (turn) => index.fold.turns.get(turn),
    records,
    records * KEPT_BODY_BYTES,
    recentRecordBytes,
  )
