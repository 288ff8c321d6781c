/**
 * The services' thread: scorer, trainer, publisher and projections, apart from the event loop that answers requests.
 * Loads the learning engine at once, starts the services at the message `start`, then answers calls.
 */
import { InstarError, schemaTexts } from '@instar/events'
import { plainError } from '@instar/events/plain-error'
import { openJoinedLog, type EventLog } from '@instar/log'
import { lowerPriority } from '@instar/policy/learn/priority'
import { createMetrics, logFolder, measuredLog, openLog, withArchiveAt } from '@instar/process'
import { parentPort, workerData } from 'node:worker_threads'
import { describeLearning, loadLearning, type Learning } from './learning.ts'
import type { CallName, Calls, FromServices, ReplayFields, ThreadData, ToServices } from './protocol.ts'
import { startServices, type Services, type ServicesPorts } from './services.ts'

/** Nice value of this thread. Requests have the priority of the process; computing an update has nice value 10. */
const SERVICES_NICE = 5

const data = workerData as ThreadData
const port = parentPort!
const send = (message: FromServices): void => port.postMessage(message)
const metrics = createMetrics()

const openThreadLog = async (): Promise<EventLog> => {
  const settings = { ...data.log, data: data.config.data }
  const log = data.port
    ? withArchiveAt(openJoinedLog(logFolder(settings), schemaTexts(), data.port), settings.archive)
    : await openLog(settings, { name: 'instar-services', logLine: (text) => send({ type: 'logLine', text }) })
  return measuredLog(log, metrics)
}

/** Id of the call → cancels its replay. */
const replays = new Map<number, AbortController>()

const streamReplay = async (services: Services, id: number, fields: ReplayFields): Promise<null> => {
  const cancel = new AbortController()
  replays.set(id, cancel)
  try {
    for await (const item of services.replay(fields, cancel.signal)) send({ type: 'item', id, item })
    return null
  } finally {
    replays.delete(id)
  }
}

const call = async (services: Services, id: number, name: CallName, params: unknown): Promise<unknown> => {
  switch (name) {
    case 'settled':
      return services.settled()
    case 'line':
      return services.line()
    case 'metrics':
      return metrics.values()
    case 'gatewayAt':
      return services.gatewayAt(params as Calls['gatewayAt']['params'])
    case 'promote': {
      const { branch, asked } = params as Calls['promote']['params']
      return services.promote(branch, asked)
    }
    case 'replay':
      return streamReplay(services, id, params as ReplayFields)
    case 'stop':
      return services.stop()
  }
}

const ports = (log: EventLog): ServicesPorts => ({
  log,
  metrics,
  onFatal: (error) => send({ type: 'fatal', error: plainError(error) }),
  logLine: (text) => send({ type: 'logLine', text }),
  onTraining: (progress) => send({ type: 'training', progress }),
  onVerdict: (progress) => send({ type: 'verdict', progress }),
})

/** Answers calls; `onStopped`: the call `stop` has ended. */
const answerCalls = (services: Services, onStopped: () => void): void => {
  port.on('message', (message: ToServices) => {
    if (message.type === 'cancel') replays.get(message.id)?.abort()
    else if (message.type === 'call') {
      const { id, name, params } = message
      call(services, id, name, params)
        .then(
          (result) => send({ type: 'result', id, result: result ?? null }),
          (error: unknown) => send({ type: 'error', id, error: plainError(error) }),
        )
        .finally(() => {
          if (name === 'stop') onStopped()
        })
    }
  })
}

const startMessage = Promise.withResolvers<ToServices & { type: 'start' }>()
startMessage.promise.catch(() => undefined)
/** A stop before the services have started aborts the start. */
const startAborted = new AbortController()
const receiveBeforeStart = (message: ToServices): void => {
  if (message.type === 'start') startMessage.resolve(message)
  else if (message.type === 'call' && message.name === 'stop') {
    const reason = new InstarError('aborted', 'The start was aborted.')
    startAborted.abort(reason)
    startMessage.reject(reason)
  }
}

const run = async (): Promise<void> => {
  let log: EventLog | null = null
  let learning: Learning | null = null
  try {
    learning = await loadLearning(data, (text) => send({ type: 'logLine', text }), startAborted.signal)
    send({ type: 'loaded', learning: learning && describeLearning(learning, data.config) })
    const { options } = await startMessage.promise
    log = await openThreadLog()
    // After the learning engine has loaded: the threads that it shares with the process keep the normal priority.
    lowerPriority(SERVICES_NICE)
    const services = await startServices(ports(log), data, learning, options, startAborted.signal)
    port.off('message', receiveBeforeStart)
    const stopped = Promise.withResolvers<void>()
    answerCalls(services, stopped.resolve)
    send({ type: 'ready' })
    await stopped.promise
  } finally {
    await learning?.gate.close()
    await learning?.learner?.close()
    await log?.close()
  }
}

port.on('message', receiveBeforeStart)
run()
  .catch((error: unknown) => send({ type: 'startFailed', error: plainError(error) }))
  .finally(() => port.close())
