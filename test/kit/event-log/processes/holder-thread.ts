/**
 * The first thread of remote-appender.test.ts: holds the log that is joined through `port` until it is told to close
 * it.
 */
import { plainError } from '@instar/events/plain-error'
import { openEmbeddedLog, type EmbeddedOptions } from '@instar/log'
import { once } from 'node:events'
import { parentPort, workerData, type MessagePort } from 'node:worker_threads'

const { options, port } = workerData as { options: EmbeddedOptions; port: MessagePort }
try {
  const log = await openEmbeddedLog(options)
  log.join(port)
  parentPort!.postMessage(null)
  await once(parentPort!, 'message')
  await log.close()
} catch (error) {
  parentPort!.postMessage(plainError(error))
}
