/**
 * The thread of scorer, trainer, publisher and projections: whatever they do, the event loop that answers people turns.
 * Begins to load at once, starts the services when it is told what they run beside, then answers calls.
 */
import { InstarError, schemaTexts } from '@instar/events'
import { plainError } from '@instar/events/plain-error'
import { openJoinedLog, type EventLog } from '@instar/log'
import { yieldToOthers } from '@instar/policy/learn/priority'
import { createMetrics, logFolder, measuredLog, openLog } from '@instar/process'
import { parentPort, workerData } from 'node:worker_threads'
import type { CallName, FromServices, ThreadData, ToServices } from './protocol.ts'
import { lineOf, loadLearning, startServices, type Learning, type Services, type ServicesPorts } from './services.ts'

/** The nice value of this thread where the cores are all in use: requests go first, and learning, at 10, last. */
const BEHIND_REQUESTS = 5

const data = workerData as ThreadData
const port = parentPort!
const say = (message: FromServices): void => port.postMessage(message)
const metrics = createMetrics()

const openIt = async (): Promise<EventLog> => {
  const settings = { ...data.log, data: data.config.data }
  const log = data.port
    ? openJoinedLog(logFolder(settings), schemaTexts(), data.port)
    : await openLog(settings, { name: 'instar-services', say: (text) => say({ type: 'say', text }) })
  return measuredLog(log, metrics)
}

/** Lines of replays whose readers are still there. */
const reading = new Map<number, AbortController>()

const stream = async (services: Services, call: number, fields: Readonly<Record<string, unknown>>): Promise<null> => {
  const gone = new AbortController()
  reading.set(call, gone)
  try {
    for await (const line of services.replay(fields, gone.signal)) say({ type: 'line', call, line })
    return null
  } finally {
    reading.delete(call)
  }
}

const answer = async (services: Services, call: number, name: CallName, given: unknown): Promise<unknown> => {
  switch (name) {
    case 'settled':
      return services.settled()
    case 'line':
      return services.line()
    case 'metrics':
      return metrics.values()
    case 'promote':
      return services.promote(given as string)
    case 'replay':
      return stream(services, call, given as Record<string, unknown>)
    case 'stop':
      return services.stop()
  }
}

const ports = (log: EventLog): ServicesPorts => ({
  log,
  metrics,
  onFatal: (error) => say({ type: 'fatal', error: plainError(error) }),
  say: (text) => say({ type: 'say', text }),
  onTraining: (what) => say({ type: 'training', what }),
  onVerdict: (what) => say({ type: 'verdict', what }),
})

const serve = (services: Services, ended: () => void): void => {
  port.on('message', (message: ToServices) => {
    if (message.type === 'leave') reading.get(message.call)?.abort()
    else if (message.type === 'call') {
      const { call, name, given } = message
      answer(services, call, name, given)
        .then(
          (value) => say({ type: 'answer', call, answer: value ?? null }),
          (error: unknown) => say({ type: 'error', call, error: plainError(error) }),
        )
        .finally(() => {
          if (name === 'stop') ended()
        })
    }
  })
}

const told = Promise.withResolvers<ToServices & { type: 'begin' }>()
told.promise.catch(() => undefined)
/** A stop that comes before the start is over gives it up. */
const givenUp = new AbortController()
const beginning = (message: ToServices): void => {
  if (message.type === 'begin') told.resolve(message)
  else if (message.type === 'call' && message.name === 'stop') {
    const reason = new InstarError('aborted', 'the start was given up')
    givenUp.abort(reason)
    told.reject(reason)
  }
}

const run = async (): Promise<void> => {
  let log: EventLog | null = null
  let learning: Learning | null = null
  try {
    learning = await loadLearning(data, givenUp.signal)
    say({ type: 'loaded', learning: learning && lineOf(learning.learner.fingerprint()) })
    const { begin } = await told.promise
    log = await openIt()
    // After what was loaded: threads that the whole process uses were started by then, with the usual priority.
    yieldToOthers(BEHIND_REQUESTS)
    const services = await startServices(ports(log), data, learning, begin, givenUp.signal)
    port.off('message', beginning)
    const over = Promise.withResolvers<void>()
    serve(services, over.resolve)
    say({ type: 'ready' })
    await over.promise
  } finally {
    await learning?.learner.close()
    await log?.close()
  }
}

port.on('message', beginning)
run()
  .catch((error: unknown) => say({ type: 'refused', error: plainError(error) }))
  .finally(() => port.close())
