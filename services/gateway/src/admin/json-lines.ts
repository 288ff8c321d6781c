/**
 * Encodes a command's result as JSON, one value per line. A heartbeat line is sent during silence; an error is the last
 * line, in the usual error shape. The work ends when the client disconnects.
 */
import type { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import { asInstarError, chatError } from '@instar/dialects'

const HEARTBEAT = { heartbeat: true } as const

type LinesOptions = {
  /** Silence in milliseconds after which a heartbeat is sent. */
  heartbeatMs: number
  /** Aborted when the client disconnects before the end. */
  gone: AbortSignal
  onFault(fault: InstarError): void
}

export const isIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value

const BEAT = Symbol('beat')
const LEFT = Symbol('left')

/**
 * `answer`: one value or an iterable. Calls the iterator's `return` as soon as the client disconnects, even while
 * `next` is pending.
 */
export const jsonLines = async function* (
  answer: Promise<unknown>,
  { heartbeatMs, gone, onFault }: LinesOptions,
): AsyncGenerator<string, void> {
  const left = Promise.withResolvers<typeof LEFT>()
  let iterator: AsyncIterator<unknown> | null = null
  const leave = (): void => {
    left.resolve(LEFT)
    iterator?.return?.().catch((error: unknown) => onFault(asInstarError(error)))
  }
  gone.addEventListener('abort', leave, { once: true })
  if (gone.aborted) left.resolve(LEFT)

  /** Yields heartbeats until `work` settles. Returns LEFT if the client disconnects first. */
  const awaited = async function* <T>(work: Promise<T>): AsyncGenerator<string, T | typeof LEFT> {
    for (;;) {
      const timer = new AbortController()
      const first = await Promise.race([
        left.promise,
        work,
        delay(heartbeatMs, BEAT, { signal: timer.signal }).catch(() => BEAT),
      ]).finally(() => timer.abort())
      if (first !== BEAT) return first as T | typeof LEFT
      yield lineOf(HEARTBEAT)
    }
  }

  try {
    const result = yield* awaited(answer)
    if (result === LEFT) return
    if (!isIterable(result)) {
      yield lineOf(result)
      return
    }
    iterator = result[Symbol.asyncIterator]()
    for (;;) {
      const next = yield* awaited(iterator.next())
      if (next === LEFT || next.done) return
      yield lineOf(next.value)
    }
  } catch (error) {
    const fault = asInstarError(error)
    onFault(fault)
    yield lineOf(chatError(fault))
  } finally {
    gone.removeEventListener('abort', leave)
  }
}

const lineOf = (value: unknown): string => `${JSON.stringify(value)}\n`
