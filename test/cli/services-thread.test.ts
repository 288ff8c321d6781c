/** The thread of the services that `instar up` starts, asked to stop at any moment. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import type { ThreadData } from '../../cli/src/services-thread/protocol.ts'
import { startThread } from '../../cli/src/services-thread/thread.ts'
import { folder } from './world.ts'

test('a stop while the services start ends the thread', { timeout: 20_000 }, async () => {
  const data = folder()
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
  } as unknown as ThreadData['log']
  const thread = startThread(
    { config, log: settings, port: port2, learns: false },
    { onFatal: (error) => faults.push(error), say: () => undefined },
  )
  await thread.loaded
  const begun = assert.rejects(thread.begin({ model: { contextLength: 1, defaults: {} } as never, database: null }), {
    code: 'aborted',
  })
  await thread.stop()
  await begun
  assert.deepEqual(faults, [])
  await log.close()
  rmSync(data, { recursive: true })
})
