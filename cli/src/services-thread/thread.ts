/** Starts the services' thread and calls it from the gateway's thread. */
import { InstarError, type Asked } from '@instar/events'
import { fromPlain } from '@instar/events/plain-error'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type {
  CallName,
  Calls,
  FromServices,
  LineState,
  ReplayFields,
  StartOptions,
  ThreadData,
  ToServices,
} from './protocol.ts'

type ThreadHooks = {
  onFatal: (error: Error) => void
  logLine: (line: string) => void
  onTraining?: ((progress: (FromServices & { type: 'training' })['progress']) => void) | undefined
  onVerdict?: ((progress: (FromServices & { type: 'verdict' })['progress']) => void) | undefined
}

/** Calls reject with `stopping` once the thread has ended. */
export type ServicesThread = {
  /** Resolves with a description of the learning engine once it is loaded; null where nothing is learned. */
  loaded: Promise<string | null>
  /** Resolves when all services have read the log to its end. Rejects with `aborted` after `stop`. */
  start(options: StartOptions): Promise<void>
  settled(): Promise<void>
  /** Null where nothing is learned. */
  line(): Promise<LineState | null>
  metrics(): Promise<Calls['metrics']['result']>
  promote(branch: string, asked: Asked): Promise<unknown>
  /** Where the base weights judge. */
  gatewayAt(address: Calls['gatewayAt']['params']): Promise<unknown>
  /** Aborting `signal` or returning from the iterator ends the replay. */
  replay(fields: ReplayFields, signal: AbortSignal): AsyncIterable<unknown>
  /** Resolves when the thread has ended. */
  stop(): Promise<void>
}

type PendingCall = {
  resolve(result: unknown): void
  reject(error: Error): void
  onItem?: (item: unknown) => void
}

const stoppedError = (): InstarError => new InstarError('stopping', 'The pipeline has stopped.')

export const startThread = (data: ThreadData, hooks: ThreadHooks): ServicesThread => {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    workerData: data,
    name: 'instar services',
    transferList: data.port ? [data.port] : [],
  })
  const pending = new Map<number, PendingCall>()
  const loaded = Promise.withResolvers<string | null>()
  const ready = Promise.withResolvers<void>()
  const exited = once(worker, 'exit').catch(() => undefined)
  let lastId = 0
  let started = false
  let stopping = false
  let ended = false

  /** Rejects everything that waits for the thread. */
  const end = (error: Error): void => {
    ended = true
    loaded.reject(error)
    ready.reject(error)
    for (const call of pending.values()) call.reject(error)
    pending.clear()
  }
  for (const { promise } of [loaded, ready]) promise.catch(() => undefined)

  const settleCall = (message: FromServices & { type: 'item' | 'result' | 'error' }): void => {
    const call = pending.get(message.id)
    if (message.type === 'item') return call?.onItem?.(message.item)
    pending.delete(message.id)
    if (message.type === 'result') call?.resolve(message.result)
    else call?.reject(fromPlain(message.error))
  }

  worker.on('message', (message: FromServices) => {
    switch (message.type) {
      case 'loaded':
        return loaded.resolve(message.learning)
      case 'ready':
        started = true
        return ready.resolve()
      case 'startFailed':
        return end(fromPlain(message.error))
      case 'logLine':
        return hooks.logLine(message.text)
      case 'fatal':
        return hooks.onFatal(fromPlain(message.error))
      case 'training':
        return hooks.onTraining?.(message.progress)
      case 'verdict':
        return hooks.onVerdict?.(message.progress)
      case 'item':
      case 'result':
      case 'error':
        return settleCall(message)
    }
  })
  worker.on('error', (cause) => {
    const error = new InstarError(
      'internal',
      `The services' thread failed: ${cause instanceof Error ? cause.message : String(cause)}`,
      {},
      { cause },
    )
    end(error)
    if (!stopping) hooks.onFatal(error)
  })
  worker.on('exit', () => {
    if (!ended && !stopping) hooks.onFatal(new InstarError('internal', "The services' thread has ended."))
    end(stoppedError())
  })

  const post = (message: ToServices): void => worker.postMessage(message)

  const call = <N extends CallName>(
    name: N,
    params: Calls[N]['params'],
    onItem?: (item: unknown) => void,
  ): { id: number; result: Promise<Calls[N]['result']> } => {
    const id = ++lastId
    if (ended) return { id, result: Promise.reject<Calls[N]['result']>(stoppedError()) }
    const { promise, resolve, reject } = Promise.withResolvers<Calls[N]['result']>()
    pending.set(id, { resolve: resolve as (result: unknown) => void, reject, ...(onItem ? { onItem } : {}) })
    post({ type: 'call', id, name, params })
    return { id, result: promise }
  }

  const replay = async function* (fields: ReplayFields, signal: AbortSignal): AsyncGenerator<unknown> {
    const items: unknown[] = []
    let wake = (): void => undefined
    const { id, result } = call('replay', fields, (item) => {
      items.push(item)
      wake()
    })
    const cancel = (): void => post({ type: 'cancel', id })
    signal.addEventListener('abort', cancel)
    let done = false
    const completed = result.finally(() => {
      done = true
      wake()
    })
    completed.catch(() => undefined)
    try {
      while (!done || items.length > 0) {
        if (items.length > 0) yield items.shift()
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
      await completed
    } finally {
      signal.removeEventListener('abort', cancel)
      if (!done) cancel()
    }
  }

  return {
    loaded: loaded.promise,
    async start(options) {
      post({ type: 'start', options })
      await ready.promise
    },
    async settled() {
      await call('settled', null).result
    },
    line: () => call('line', null).result,
    metrics: () => call('metrics', null).result,
    gatewayAt: (address) => call('gatewayAt', address).result,
    promote: (branch, asked) => call('promote', { branch, asked }).result,
    replay,
    async stop() {
      stopping = true
      const { result } = call('stop', null)
      // A start that is aborted answers no call.
      await Promise.race([started ? result : result.catch(() => undefined), exited])
      await exited
    },
  }
}
