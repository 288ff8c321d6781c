/** The reader of turns' records, with those of active sessions in memory. */
import { createTurnReader, type EventLog, type TurnReader } from '@instar/log'
import type { GatewayConfig } from '../config.ts'
import type { SessionIndex } from './core/session-index.ts'

/** Bytes of request bodies cached per record: later requests of a session repeat its bodies. */
const KEPT_BODY_BYTES = 32 * 1024

export const cachedReader = (
  log: EventLog,
  index: Pick<SessionIndex, 'fold'>,
  { records, recentRecordBytes }: Pick<GatewayConfig, 'records' | 'recentRecordBytes'>,
): TurnReader =>
  createTurnReader(log, (turn) => index.fold.turns.get(turn), records, records * KEPT_BODY_BYTES, recentRecordBytes)
