/** A log whose reading can be stopped for a while. */
import type { EventLog } from '@instar/log'

export type HeldLog = { log: EventLog; hold(): void; release(): void }

/** `log` gives no record from `hold` until `release`; one that its reader has in memory stays there. */
export const heldLog = (target: EventLog): HeldLog => {
  let gate = Promise.withResolvers<void>()
  gate.resolve()
  const log = new Proxy(target, {
    get(_, name) {
      if (name === 'at')
        return async (position: Parameters<EventLog['at']>[0]) => {
          await gate.promise
          return target.at(position)
        }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  return { log, hold: () => void (gate = Promise.withResolvers<void>()), release: () => gate.resolve() }
}
