/** The thread of the other services, as the gateway's thread has it. */
import { InstarError } from '@instar/events'
import { fromPlain } from '@instar/events/plain-error'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Begin, CallName, Calls, FromServices, LineState, ThreadData, ToServices } from './protocol.ts'

type ThreadHooks = {
  onFatal: (error: Error) => void
  say: (line: string) => void
  onTraining?: ((what: (FromServices & { type: 'training' })['what']) => void) | undefined
  onVerdict?: ((what: (FromServices & { type: 'verdict' })['what']) => void) | undefined
}

export type ServicesThread = {
  /** Resolves when what learns is loaded: in words, null where nothing learns. */
  loaded: Promise<string | null>
  /** Resolves when all services have read the log to its end. */
  begin(begin: Begin): Promise<void>
  settled(): Promise<void>
  /** Null where nothing is learned. */
  line(): Promise<LineState | null>
  metrics(): Promise<Calls['metrics']['answer']>
  promote(branch: string): Promise<unknown>
  replay(fields: Readonly<Record<string, unknown>>, gone: AbortSignal): AsyncIterable<unknown>
  /** Resolves when the thread has ended. */
  stop(): Promise<void>
}

type Call = { resolve(answer: unknown): void; reject(error: Error): void; onLine?: (line: unknown) => void }

export const startThread = (data: ThreadData, hooks: ThreadHooks): ServicesThread => {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    workerData: data,
    name: 'instar services',
    transferList: data.port ? [data.port] : [],
  })
  const calls = new Map<number, Call>()
  const loaded = Promise.withResolvers<string | null>()
  const ready = Promise.withResolvers<void>()
  const exited = once(worker, 'exit').catch(() => undefined)
  let number = 0
  let begun = false
  let stopping = false
  let over = false

  /** Whatever waits for the thread waits in vain. */
  const end = (error: Error): void => {
    over = true
    loaded.reject(error)
    ready.reject(error)
    for (const call of calls.values()) call.reject(error)
    calls.clear()
  }
  for (const { promise } of [loaded, ready]) promise.catch(() => undefined)

  const answered = (message: FromServices & { type: 'line' | 'answer' | 'error' }): void => {
    const call = calls.get(message.call)
    if (message.type === 'line') return call?.onLine?.(message.line)
    calls.delete(message.call)
    if (message.type === 'answer') call?.resolve(message.answer)
    else call?.reject(fromPlain(message.error))
  }

  worker.on('message', (message: FromServices) => {
    switch (message.type) {
      case 'loaded':
        return loaded.resolve(message.learning)
      case 'ready':
        begun = true
        return ready.resolve()
      case 'refused':
        return end(fromPlain(message.error))
      case 'say':
        return hooks.say(message.text)
      case 'fatal':
        return hooks.onFatal(fromPlain(message.error))
      case 'training':
        return hooks.onTraining?.(message.what)
      case 'verdict':
        return hooks.onVerdict?.(message.what)
      case 'line':
      case 'answer':
      case 'error':
        return answered(message)
    }
  })
  worker.on('error', (cause) => {
    const error = new InstarError(
      'internal',
      `the thread of the services failed: ${cause instanceof Error ? cause.message : String(cause)}`,
      {},
      { cause },
    )
    end(error)
    if (!stopping) hooks.onFatal(error)
  })
  worker.on('exit', () => {
    if (!over && !stopping) hooks.onFatal(new InstarError('internal', 'the thread of the services has ended'))
    end(new InstarError('stopping', 'The pipeline has stopped.'))
  })

  const post = (message: ToServices): void => worker.postMessage(message)

  const ask = <N extends CallName>(
    name: N,
    given: Calls[N]['given'],
    onLine?: (line: unknown) => void,
  ): { call: number; answer: Promise<Calls[N]['answer']> } => {
    const call = ++number
    if (over)
      return {
        call,
        answer: Promise.reject<Calls[N]['answer']>(new InstarError('stopping', 'The pipeline has stopped.')),
      }
    const { promise, resolve, reject } = Promise.withResolvers<Calls[N]['answer']>()
    calls.set(call, { resolve: resolve as (answer: unknown) => void, reject, ...(onLine ? { onLine } : {}) })
    post({ type: 'call', call, name, given })
    return { call, answer: promise }
  }

  const replay = async function* (
    fields: Readonly<Record<string, unknown>>,
    gone: AbortSignal,
  ): AsyncGenerator<unknown> {
    const lines: unknown[] = []
    let wake = (): void => undefined
    const { call, answer } = ask('replay', fields, (line) => {
      lines.push(line)
      wake()
    })
    const leave = (): void => post({ type: 'leave', call })
    gone.addEventListener('abort', leave)
    let ended = false
    const done = answer.finally(() => {
      ended = true
      wake()
    })
    done.catch(() => undefined)
    try {
      while (!ended || lines.length > 0) {
        if (lines.length > 0) yield lines.shift()
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
      await done
    } finally {
      gone.removeEventListener('abort', leave)
      if (!ended) leave()
    }
  }

  return {
    loaded: loaded.promise,
    async begin(begin) {
      post({ type: 'begin', begin })
      await ready.promise
    },
    async settled() {
      await ask('settled', null).answer
    },
    line: () => ask('line', null).answer,
    metrics: () => ask('metrics', null).answer,
    promote: (branch) => ask('promote', branch).answer,
    replay,
    async stop() {
      stopping = true
      const { answer } = ask('stop', null)
      // A start that is given up has nothing more to say.
      await Promise.race([begun ? answer : answer.catch(() => undefined), exited])
      await exited
    },
  }
}
