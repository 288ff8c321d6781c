import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { limitResult } from './query.ts'

test('a result, or a single value that has not arrived whole, ends the connection above 128 MiB', async () => {
  for (const rows of [false, true]) {
    const stream = new PassThrough()
    const connection = Object.assign(new EventEmitter(), { stream })
    const limit = limitResult({ connection } as never)
    let parsed = 0
    stream.on('data', ({ length }: Uint8Array) => {
      parsed += length
    })
    const piece = Buffer.alloc(1 << 20)
    for (let i = 0; i < 200 && !stream.destroyed; i += 1) {
      stream.write(piece)
      await new Promise(setImmediate)
      // A row counts with 100 bytes besides.
      if (rows) for (let row = 0; row < 10_000; row += 1) connection.emit('dataRow', { length: 1 })
    }
    assert.ok(limit.exceeded && stream.destroyed)
    assert.equal(parsed >> 20, rows ? 66 : 129)
  }
})
