/** A log with some of its methods replaced; everything else is the log's own. */
import type { EventLog } from '@instar/log'

export const logWith = <L extends EventLog>(log: L, methods: Partial<EventLog>): L => {
  const own = new Map<PropertyKey, unknown>(Object.entries(methods))
  return new Proxy(log, {
    get(target, name) {
      if (own.has(name)) return own.get(name)
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      const bound: unknown = value.bind(target)
      own.set(name, bound)
      return bound
    },
  })
}
