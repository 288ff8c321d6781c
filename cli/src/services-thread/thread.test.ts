/** The services' thread of `instar up`: a stop during its start, its priority. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { InstarError, schemaTexts } from '@instar/events'
import { openEmbeddedLog, openMemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import type { ThreadData } from './protocol.ts'
import { startServices, type ServicesPorts } from './services.ts'
import { startThread } from './thread.ts'
import { folder } from '../../../test/kit/cli.ts'

const start = async (data: string) => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  const { port1, port2 } = new MessageChannel()
  log.join(port1)
  const faults: Error[] = []
  const config = { data, model: '', engine: 'auto', scorer: {}, trainer: {}, publisher: {} } as const
  const settings = {
    log: 'embedded',
    registry: null,
    registryUser: null,
    kafka: {},
    partitions: {},
    archive: null,
  } as unknown as ThreadData['log']
  const thread = startThread(
    { config, log: settings, port: port2, learns: false, share: null },
    { onFatal: (error) => faults.push(error), logLine: () => undefined },
  )
  await thread.loaded
  return { log, thread, faults }
}
const OPTIONS = { model: { contextLength: 1, defaults: {} } as never, database: null }

test('a stop while the services read the log aborts their start', { timeout: 20_000 }, async () => {
  const data = folder()
  const log = openMemoryLog()
  const reading = Promise.withResolvers<void>()
  const subscribe = log.subscribe.bind(log)
  // The reader never catches up, as on a log that grows faster than it is read.
  log.subscribe = async (options) => {
    const subscription = await subscribe(options)
    reading.resolve()
    const stopped = Promise.withResolvers<never>()
    stopped.promise.catch(() => undefined)
    return {
      done: subscription.done,
      commit: (positions) => subscription.commit(positions),
      take: (partition, from) => subscription.take(partition, from),
      release: (partition) => subscription.release(partition),
      caughtUp: () => stopped.promise,
      async stop() {
        await subscription.stop()
        stopped.reject(new InstarError('stopping', 'The reader was stopped.'))
      },
    }
  }
  const ignore = (): void => undefined
  const faults: Error[] = []
  const ports: ServicesPorts = {
    log,
    metrics: createMetrics(),
    logLine: ignore,
    onFatal: (error) => faults.push(error),
    onTraining: ignore,
    onVerdict: ignore,
  }
  const stop = new AbortController()
  const config = { data, model: '', engine: 'auto', scorer: {}, trainer: {}, publisher: {} }
  const starting = startServices(ports, { config } as unknown as ThreadData, null, OPTIONS, stop.signal)
  await reading.promise
  stop.abort(new InstarError('aborted', 'The start was aborted.'))
  await assert.rejects(starting, { code: 'aborted' })
  assert.deepEqual(faults, [])
  rmSync(data, { recursive: true })
})

/** The nice value of a thread of this process, by its id. */
const niceOf = (thread: string): number =>
  Number(
    readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[16],
  )

test('a stop during the start ends the thread', { timeout: 20_000 }, async () => {
  const data = folder()
  const { log, thread, faults } = await start(data)
  // The services of an empty log may be ready before the stop is received.
  const started = thread.start(OPTIONS).then(
    () => 'ready',
    (error: InstarError) => error.code,
  )
  await thread.stop()
  assert.match(await started, /^(aborted|ready)$/)
  assert.deepEqual(faults, [])
  await log.close()
  rmSync(data, { recursive: true })
})

test(
  "the services' thread has nice value 5, the other threads keep theirs",
  { timeout: 20_000, skip: process.platform !== 'linux' },
  async () => {
    const data = folder()
    const own = niceOf(String(process.pid))
    const { log, thread, faults } = await start(data)
    try {
      await thread.start(OPTIONS)
      const others = readdirSync('/proc/self/task').map(niceOf)
      assert.equal(niceOf(String(process.pid)), own)
      assert.equal(others.filter((nice) => nice === Math.max(own, 5)).length, own >= 5 ? others.length : 1)
    } finally {
      await thread.stop()
      await log.close()
      rmSync(data, { recursive: true })
    }
    assert.deepEqual(faults, [])
  },
)
