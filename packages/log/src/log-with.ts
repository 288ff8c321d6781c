/** A log with some of its methods replaced; the others are those of `log`. */
import type { EventLog } from './port.ts'

export const logWith = <L extends EventLog>(log: L, methods: Partial<EventLog>): L => {
  const overrides = new Map<PropertyKey, unknown>(Object.entries(methods))
  return new Proxy(log, {
    get(target, name) {
      if (overrides.has(name)) return overrides.get(name)
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      const bound: unknown = value.bind(target)
      overrides.set(name, bound)
      return bound
    },
  })
}
