/** A client of an engine's server that answers each request with `answer`; both end with the test. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { EngineHttp } from '../../packages/engine/src/remote/http.ts'

export const startEngineHttp = async (
  t: TestContext,
  answer: (response: ServerResponse) => void,
): Promise<EngineHttp> => {
  const server = createServer((request, response) => {
    request.resume()
    answer(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const limits = { connectMs: 10_000, firstByteMs: 60_000, idleMs: 60_000, jsonMs: 60_000 }
  const http = new EngineHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, null, limits)
  t.after(() => {
    http.close()
    server.closeAllConnections()
    server.close()
  })
  return http
}
