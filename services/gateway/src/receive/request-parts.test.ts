/** The reason with which a request ends whose client has disconnected. */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import type { FastifyReply } from 'fastify'
import { goneSignal } from './request-parts.ts'

test('work of a client that has disconnected ends with `aborted`, which is no fault of the gateway', () => {
  for (const writableFinished of [false, true]) {
    const raw = Object.assign(new EventEmitter(), { writableFinished })
    const gone = goneSignal({ raw } as unknown as FastifyReply)
    raw.emit('close')
    if (writableFinished) assert.equal(gone.aborted, false)
    else assert.throws(() => gone.throwIfAborted(), { name: 'InstarError', code: 'aborted' })
  }
})
