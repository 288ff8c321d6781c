/** The gateway's fold of `turns` for checkpoints. That of `weights` needs none: the topic is small and is never cut. */
import { storedTurns, type StoredFold } from '@instar/log'
import type { Logged, TurnsEvent } from '@instar/events'
import { HELD, UNFILLED, type HeldNames } from './core/held-names.ts'
import { evolveStored } from './core/stored-turns.ts'
import { marksIn, TURNS_VERSION } from './snapshot.ts'

/**
 * Sessions with their turns. Recent sessions and names of answers depend on the order of partitions and on a gateway's settings: they
 * are made of the sessions by the gateway that starts (fill.ts).
 */
export const gatewayFold: StoredFold = {
  service: 'gateway',
  part: 'turns',
  version: TURNS_VERSION,
  topics: ['turns'],
  on(snapshot) {
    const stored = { fold: storedTurns(snapshot), byMintedId: marksIn(snapshot) }
    const held = snapshot.resident<HeldNames>(HELD.table)
    let isMarked = false
    return (logged) => {
      if (!isMarked) held.set(HELD.key, UNFILLED)
      isMarked = true
      return evolveStored(stored, logged as Logged<TurnsEvent>)
    }
  },
}
