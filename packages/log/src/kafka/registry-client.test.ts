/**
 * A schema registry that accepts connections and does not answer, as during its start; and one that requires a user.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createHttp } from 'node:http'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { RegistryClient } from './registry-client.ts'
import { SchemaTable } from './schema-rows.ts'
import { LogSchemas } from './schemas.ts'

const FEEDBACK = 'FeedbackGiven.v1'
const schemas = schemaTexts()

test('a registry that does not respond causes a timeout error, and is used as soon as it responds', async () => {
  const sockets = new Set<Socket>()
  let responding = false
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    socket.on('data', () => {
      const body = JSON.stringify({ subject: 's', version: 1, id: 7, schema: '{}' })
      if (responding)
        socket.end(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
        )
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const table = new SchemaTable([{ id: 7, schema: FEEDBACK, avro: schemas[FEEDBACK]! }])
    const ids = new LogSchemas(new RegistryClient({ url, timeoutMs: 50 }), {
      schemas,
      table,
      reread: () => Promise.resolve([]),
    })
    for (const request of [() => ids.idOf(FEEDBACK), () => ids.findById(999)]) {
      await assert.rejects(
        request(),
        (error: Error) => !(error instanceof InstarError) && /Timeout \(50ms\)/.test(error.message),
      )
    }
    ids.useLogId(FEEDBACK)
    assert.equal(ids.cachedId(FEEDBACK), 7, 'the id is read from the log')
    assert.deepEqual(await ids.findById(7), { schema: FEEDBACK }, 'an id of the log is found without the registry')
    responding = true
    assert.equal(
      await new LogSchemas(new RegistryClient({ url, timeoutMs: 5000 }), {
        schemas,
        table,
        reread: () => Promise.resolve([]),
      }).idOf(FEEDBACK),
      7,
    )
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
})

test('requests have the user and password; wrong ones throw an error without the password', async () => {
  const server = createHttp((request, response) => {
    const authorized = request.headers.authorization === `Basic ${Buffer.from('instar:pä:ss').toString('base64')}`
    response
      .writeHead(authorized ? 200 : 401, { 'content-type': 'application/json' })
      .end(authorized ? '{"id":7}' : 'no')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    assert.deepEqual(
      (await new RegistryClient({ url, username: 'instar', password: 'pä:ss' }).request('GET', '/x')).body,
      {
        id: 7,
      },
    )
    await assert.rejects(
      new RegistryClient({ url, username: 'instar', password: 'secret' }).request('GET', '/x'),
      (error: Error) =>
        error instanceof InstarError && error.code === 'registry_refused' && !error.message.includes('secret'),
    )
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

/** A registry whose responses do not end: one space every 20 ms, or 64 KiB at once after each other. */
for (const [mode, body, error] of [
  ['slowly', ' ', /Timeout \(300ms\)/],
  ['without end', ' '.repeat(64 << 10), /exceeds 8388608 bytes/],
] as const) {
  test(`a registry that sends its response ${mode} is one that does not respond`, { timeout: 20_000 }, async () => {
    let sent = 0
    const server = createHttp((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const write = (): void => {
        if (response.destroyed) return
        sent += body.length
        if (sent < 64 << 20) response.write(body, () => void setTimeout(write, mode === 'slowly' ? 20 : 0))
      }
      write()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const client = new RegistryClient({ url, timeoutMs: mode === 'slowly' ? 300 : 15_000 })
      for (const request of [() => client.idOf('s', '{}'), () => client.register('s', '{}')]) {
        sent = 0
        await assert.rejects(request(), error)
      }
    } finally {
      server.close()
      server.closeAllConnections()
    }
  })
}

test('an id that does not fit into a record is none; a refusal has the reason of the registry', async () => {
  let answer: [number, string] = [200, '']
  const server = createHttp((_, response) => {
    response.writeHead(answer[0], { 'content-type': 'application/json' }).end(answer[1])
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const client = new RegistryClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    for (const body of ['null', '{"id":"seven"}', `{"id":${2 ** 40}}`, '{"id":-1}']) {
      answer = [200, body]
      await assert.rejects(client.idOf('s', '{}'), /no schema id/)
      await assert.rejects(client.register('s', '{}'), /no schema id/)
    }
    answer = [404, '{"error_code":40403,"message":"Schema not found"}']
    assert.equal(await client.idOf('s', '{}'), undefined)
    answer = [409, '{"error_code":409,"message":"incompatible"}']
    assert.deepEqual(await client.register('s', '{}'), { refused: 'incompatible' })
    answer = [401, 'no']
    await assert.rejects(client.register('s', '{}'), { code: 'registry_refused' })
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

test('an id that is a schema of another kind in the registry is one, and unknown ids read the schemas seldom', async () => {
  const text = 'syntax = "proto3"; message Page { string url = 1; }'
  const server = createHttp((request, response) => {
    const body = request.url!.endsWith('/versions')
      ? [{ subject: 'pages-value', version: 2 }]
      : { schemaType: 'PROTOBUF', schema: text }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    let reads = 0
    const schemas = new LogSchemas(new RegistryClient(url), {
      schemas: { 'A.v1': '{"type":"record","name":"A","fields":[]}' },
      table: new SchemaTable(),
      reread: async () => (reads++, []),
      now: () => 0,
    })
    for (let id = 1; id <= 150; id++)
      assert.deepEqual(await schemas.findById(id), { schema: 'pages-value.v2', avro: text })
    assert.equal(reads, 100)
  } finally {
    server.close()
    server.closeAllConnections()
  }
})
