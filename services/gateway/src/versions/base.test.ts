/** A gateway whose model is not the base of the versions on its log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, InstarError } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { model, startRig } from '../../../../test/kit/gateway.ts'

test('a line of another base that begins after the start of the gateway ends it', async () => {
  const log = openMemoryLog()
  const fatal = Promise.withResolvers<Error>()
  const rig = await startRig({ log, ports: { base: model, onFatal: fatal.resolve } })
  try {
    await log.append([
      encodeEvent({
        type: 'LineStarted',
        prev: '',
        policy: 'policy',
        mode: 'live',
        base: { name: 'other', sha256: '0'.repeat(64) },
        parent: null,
        settings: {},
        at: 1_700_000_000_000,
      }),
    ])
    const error = await fatal.promise
    assert.ok(error instanceof InstarError && error.code === 'other_base', error.message)
  } finally {
    await rig.stop()
  }
})
