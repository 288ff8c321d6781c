/** The reason with which a request ends whose client has disconnected. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { FastifyReply } from 'fastify'
import { goneSignal } from './request-parts.ts'

test('work of a client that has disconnected ends with `aborted`, which is no fault of the gateway', () => {
  for (const writableFinished of [false, true]) {
    const raw = Object.assign(new EventEmitter(), { writableFinished })
    const request = { raw: { socket: new EventEmitter() } }
    const gone = goneSignal({ raw, request } as unknown as FastifyReply)
    raw.emit('close')
    if (writableFinished) assert.equal(gone.aborted, false)
    else assert.throws(() => gone.throwIfAborted(), { name: 'InstarError', code: 'aborted' })
  }
})

test('so does that of requests which wait behind another one of the connection, also if it is closed before they are handled', async (t) => {
  const signals: AbortSignal[] = []
  const waiting: FastifyReply[] = []
  const handled = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const server = createServer((raw, response: ServerResponse) => {
    const reply = { raw: response, request: { raw } } as unknown as FastifyReply
    if (raw.url === '/late') waiting.push(reply)
    else signals.push(goneSignal(reply))
    if (signals.length + waiting.length === 21) handled.resolve()
  })
  server.on('connection', (socket) => socket.once('close', () => setImmediate(closed.resolve)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const warned: Error[] = []
  const note = (warning: Error): unknown => warned.push(warning)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`
  client.write(get('/one').repeat(20) + get('/late'))
  await handled.promise
  client.destroy()
  await closed.promise
  signals.push(...waiting.map(goneSignal))
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    Array.from({ length: 21 }, () => true),
  )
  assert.deepEqual(warned, [])
})
