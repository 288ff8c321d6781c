/**
 * A pass-through proxy: a Fastify server and an undici client; bodies are unchanged. `pass-through.ts ENGINE UNDICI`.
 */
import Fastify from 'fastify'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'

type Undici = {
  Pool: new (
    origin: string,
    options: object,
  ) => {
    request(
      options: object,
    ): Promise<{ statusCode: number; headers: Record<string, string | string[]>; body: Readable }>
  }
}

const [, , engine = '', undici = ''] = process.argv
const { Pool } = createRequire(import.meta.url)(undici) as Undici
const pool = new Pool(new URL(engine).origin, { connections: 256, pipelining: 1 })
/** Headers of one connection, which a proxy does not forward. */
const HOP_BY_HOP = new Set(['connection', 'host', 'keep-alive', 'transfer-encoding', 'upgrade'])
const endToEnd = (
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> => {
  const forwarded: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !HOP_BY_HOP.has(name)) forwarded[name] = value
  return forwarded
}
const server = Fastify({ bodyLimit: 32 * 1024 * 1024 })
server.removeAllContentTypeParsers()
server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
server.post('/v1/chat/completions', async (request, reply) => {
  const { statusCode, headers, body } = await pool.request({
    method: 'POST',
    path: request.url,
    headers: endToEnd(request.headers),
    body: request.body,
  })
  return reply.status(statusCode).headers(endToEnd(headers)).send(body)
})
await server.listen({ host: '127.0.0.1', port: 0 })
process.send!((server.server.address() as AddressInfo).port)
process.on('disconnect', () => process.exit(0))
