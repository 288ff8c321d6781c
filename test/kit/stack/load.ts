/** Callers that append as fast as they are answered, and a check of what the log then has. */
import type { EventLog, LogRecord } from '@instar/log'
import { note, range, textOf } from '../event-log/harness.ts'

export type Load = {
  acknowledged(): number
  /** Resolves after so many further acknowledged calls. Rejects if a call was refused. */
  more(calls: number): Promise<void>
  /** Resolves with every acknowledged record when the last call is answered. */
  stop(): Promise<string[]>
  /** The longest duration of a call, ms. */
  longest(): number
}

const KEYS = 3

/** Each call has one record for each of its caller's three keys, `caller.key.call`. */
export const startLoad = (log: EventLog, callers: number): Load => {
  const acknowledged: string[] = []
  const waiters: { at: number; resolve(): void; reject(cause: unknown): void }[] = []
  let calls = 0
  let longest = 0
  let stopping = false
  let refused: { cause: unknown } | undefined
  const wake = (): void => {
    for (const waiter of waiters.filter(({ at }) => refused || calls >= at)) {
      waiters.splice(waiters.indexOf(waiter), 1)
      if (refused) waiter.reject(refused.cause)
      else waiter.resolve()
    }
  }
  const running = Promise.all(
    range(callers).map(async (caller) => {
      for (let call = 0; !stopping; call++) {
        const texts = range(KEYS).map((key) => `${caller}.${key}.${call}`)
        const begin = performance.now()
        try {
          await log.append(
            texts.map((text) => note(text.slice(0, text.lastIndexOf('.')), `${text}|${'x'.repeat(200)}`)),
          )
        } catch (cause) {
          refused ??= { cause }
          stopping = true
          return wake()
        }
        longest = Math.max(longest, performance.now() - begin)
        acknowledged.push(...texts)
        calls++
        wake()
      }
    }),
  )
  return {
    acknowledged: () => acknowledged.length,
    longest: () => Math.round(longest),
    more: (count) =>
      new Promise((resolve, reject) => {
        waiters.push({ at: calls + count, resolve, reject })
        wake()
      }),
    async stop() {
      stopping = true
      await running
      if (refused) throw refused.cause
      return acknowledged
    },
  }
}

export type Found = { acknowledged: number; stored: number; lost: number; doubled: number; disordered: number }

export const nameOf = (record: LogRecord): string => textOf(record).split('|')[0]!

/** `disordered`: records after a later one of their key, without repetitions. */
export const compare = (acknowledged: readonly string[], records: readonly LogRecord[]): Found => {
  const seen = new Set<string>()
  const last = new Map<string, number>()
  let doubled = 0
  let disordered = 0
  for (const record of records) {
    const name = nameOf(record)
    if (seen.has(name)) {
      doubled++
      continue
    }
    seen.add(name)
    const call = Number(name.slice(name.lastIndexOf('.') + 1))
    if (call !== (last.get(record.key) ?? -1) + 1) disordered++
    last.set(record.key, call)
  }
  return {
    acknowledged: acknowledged.length,
    stored: records.length,
    lost: acknowledged.filter((name) => !seen.has(name)).length,
    doubled,
    disordered,
  }
}
