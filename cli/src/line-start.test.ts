/** What a gateway that runs says of a line that has not started. */
import { deepEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { askingNow } from './line-start.ts'

test('of a line that starts the gateway says how far the base is with its probes; without a gateway nothing is known', async (t) => {
  let reading: object = {}
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/v1/dashboard/now' ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(reading))
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const config = { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
  const gauge = (figure: string, value: number) => ({ labels: { figure }, value })
  reading = {
    policy: 'policy',
    started_at: null,
    gauges: { instar_base_probes: [gauge('of', 475), gauge('asked', 64), gauge('kept', 57)] },
  }
  deepEqual(await askingNow(config), { asked: 64, of: 475, kept: 57 })
  // A value of 0 is left out of the reading.
  reading = { policy: 'policy', started_at: null, gauges: { instar_base_probes: [gauge('of', 475)] } }
  deepEqual(await askingNow(config), { asked: 0, of: 475, kept: 0 })
  reading = { policy: 'policy', started_at: null, gauges: {} }
  deepEqual(await askingNow(config), 'elsewhere')
  reading = { policy: 'policy', started_at: '2026-11-28T00:00:00.000Z', gauges: {} }
  deepEqual(await askingNow(config), null)
  server.close()
  server.closeAllConnections()
  deepEqual(await askingNow(config), null)
})
