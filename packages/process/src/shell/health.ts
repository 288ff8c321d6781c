/** The HTTP server of a service without another one: `GET /health/live`, `/health/ready` and `/metrics`. */
import { InstarError } from '@instar/events/errors'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { METRICS_TYPE, type Metrics } from '../metrics/metrics.ts'

/** `problem`: why the service is not ready; null: it is ready. */
export type Health = { status: string; problem: string | null; [figure: string]: unknown }

/** Throws `address_in_use` if it cannot listen on the port; port 0 selects a free one. */
export const startHealth = async (
  host: string,
  port: number,
  health: () => Health | Promise<Health>,
  metrics: Metrics,
): Promise<{ port: number; stop(): Promise<void> }> => {
  const answer = async (path: string | undefined, response: ServerResponse): Promise<void> => {
    if (path === '/metrics') {
      const text = await metrics.text()
      response.writeHead(200, { 'content-type': METRICS_TYPE, connection: 'close' }).end(text)
      return
    }
    const known = path === '/health/live' || path === '/health/ready'
    const body =
      path === '/health/live'
        ? { status: 'live' }
        : known
          ? await health()
          : { status: 'unknown path', problem: 'The paths are /health/live, /health/ready and /metrics.' }
    const status = !known ? 404 : 'problem' in body && body.problem !== null ? 503 : 200
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(body))
  }
  const server = createServer((request, response) => {
    answer(request.url?.split('?')[0], response).catch((error: unknown) => response.destroy(error as Error))
  })
  server.listen({ host, port })
  try {
    await once(server, 'listening')
  } catch (cause) {
    throw new InstarError(
      'address_in_use',
      `Cannot listen on ${host}:${port} (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message}).`,
      { port },
      { cause },
    )
  }
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
