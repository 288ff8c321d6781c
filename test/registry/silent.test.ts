/** A schema registry that takes connections and says nothing, as one does that is being started. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { RegistryIds } from '@instar/log/kafka/schemas'

test('it is not waited for for ever, nor taken for one that says no; once it answers, it is heard', async () => {
  const sockets = new Set<Socket>()
  let answers = false
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    socket.on('data', () => {
      const body = JSON.stringify({ subject: 's', version: 1, id: 7, schema: '{}' })
      if (answers) socket.end(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const ids = new RegistryIds(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 'test', schemaTexts(), 50)
    for (const ask of [() => ids.idOf('FeedbackGiven.v1'), () => ids.find(999)]) {
      await assert.rejects(ask(), (error: Error) => !(error instanceof InstarError) && /Timeout \(50ms\)/.test(error.message))
    }
    answers = true
    assert.equal(await ids.idOf('FeedbackGiven.v1'), 7)
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
})
